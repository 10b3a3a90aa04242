package downstream

import "time"

// Renewable is what of an HTTPConfig can be changed while connections are open.
type Renewable struct {
	AllowedHosts []string
	Tokens       []string
	Pages        []string
	Heartbeat    time.Duration
}

// guests are those who are let in.
type guests struct {
	hosts  hostList
	tokens tokenList
	pages  pages
}

// Renew takes r into use, in the place of what stood in the configuration: for
// every request from now on, also on connections that are open. A stream that was
// opened by a token goes on when that is taken away, and its next beat is still by
// the old heartbeat. It may be called at any time.
func (h *HTTP) Renew(r Renewable) {
	h.guests.Store(&guests{hosts: newHostList(r.AllowedHosts), tokens: newTokenList(r.Tokens), pages: r.Pages})
	h.heartbeat.Store(int64(r.Heartbeat))
}

// beat is how long a stream may be silent before a comment is sent; 0 for ever.
func (h *HTTP) beat() time.Duration { return time.Duration(h.heartbeat.Load()) }
