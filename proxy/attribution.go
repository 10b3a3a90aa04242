package proxy

import (
	"slices"

	"github.com/tidwall/gjson"

	"github.com/dragoman-proxy/dragoman/proxy/mcp"
	"github.com/dragoman-proxy/dragoman/translate/wire"
)

// Notifications that a server sends on the standing stream may be about a call all
// the same: progress says so by its token, and log messages can only be about the
// one call that wants some.

// wantsLogs reports whether the server may send q log messages.
func (b *pooledSession) wantsLogs(q *modernRequest) bool {
	return q.level != mcp.NoLogLevel && b.s.Facts.Has(wire.ServerLogging)
}

// overhears reports whether something about q may come on the standing stream. What a
// server on a pipe says of it, its lanes sort out.
func (b *pooledSession) mayReceiveOnStanding(q *modernRequest) bool {
	return b.wantsLogs(q) || q.token != nil && !b.s.piped
}

// takePart enters a dialogue before its call is sent.
func (b *pooledSession) join(d *parkedCall) {
	b.mu.Lock()
	if b.parkedCalls == nil {
		b.parkedCalls = map[*parkedCall]bool{}
	}
	b.parkedCalls[d] = true
	b.mu.Unlock()
	if d.first.mayAsk() {
		b.begin(d)
	}
}

// partWith ends that.
func (b *pooledSession) leave(d *parkedCall) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.parkedCalls, d)
	b.inFlight = slices.DeleteFunc(b.inFlight, func(other *parkedCall) bool { return other == d })
}

// about is the call that a notification of the standing stream is about, nil for none.
func (b *pooledSession) about(m *wire.Message) *parkedCall {
	b.mu.Lock()
	var newest *parkedCall
	if n := len(b.inFlight); n > 0 {
		newest = b.inFlight[n-1]
	}
	all := make([]*parkedCall, 0, len(b.parkedCalls))
	for d := range b.parkedCalls {
		all = append(all, d)
	}
	b.mu.Unlock()
	switch m.Method {
	case wire.Progress:
		token := gjson.Get(wire.View(m.Params()), "progressToken").String()
		for _, d := range all {
			if d.hasProgressToken(token) {
				return d
			}
		}
		return nil
	case wire.LogMessage:
		if b.s.piped {
			return nil // its lanes have found out, when it came
		}
		var only *parkedCall
		for _, d := range all {
			switch {
			case d.first.level == mcp.NoLogLevel:
			case only != nil:
				return nil
			default:
				only = d
			}
		}
		return only
	}
	return newest
}

// knownBy reports whether token is the one that the server has for the call.
func (d *parkedCall) hasProgressToken(token string) bool { return token == "p"+d.call }
