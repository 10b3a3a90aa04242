package downstream

import "time"

// Renewable is the part of an HTTPConfig that can be changed while connections are
// open.
type Renewable struct {
	AllowedHosts []string
	Tokens       []string
	Pages        []string
	PageHeaders  []string
	Heartbeat    time.Duration
}

// guests says which requests are admitted.
type guests struct {
	hosts  hostList
	tokens tokenList
	pages  pages

	pageHeaders []string // that pages may send, too
}

// Renew replaces these parts of the configuration by r, for every request from now on,
// on open connections as well. A stream that was opened with a token goes on if the
// token is removed, and its next heartbeat still comes at the old time. Renew may be
// called at any time.
func (h *HTTP) Renew(r Renewable) {
	h.guests.Store(&guests{hosts: newHostList(r.AllowedHosts), tokens: newTokenList(r.Tokens), pages: r.Pages, pageHeaders: r.PageHeaders})
	h.heartbeat.Store(int64(r.Heartbeat))
}

// beat returns how long a stream may be silent before a comment is sent; 0 for ever.
func (h *HTTP) beat() time.Duration { return time.Duration(h.heartbeat.Load()) }
