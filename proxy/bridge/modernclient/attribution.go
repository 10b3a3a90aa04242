package modernclient

import (
	"slices"

	"github.com/tidwall/gjson"

	"github.com/dragoman-proxy/dragoman/proxy/mcp"
	"github.com/dragoman-proxy/dragoman/proxy/stateless"
	"github.com/dragoman-proxy/dragoman/translate/wire"
)

// Notifications on the server's standing stream may belong to a call. A progress notification names
// the call's token. A log message belongs to the call that asked for log messages, if there is only
// one.

// wantsLogs reports whether the server may send q log messages.
func (b *pooledSession) wantsLogs(q *stateless.Request) bool {
	return q.LogLevel != mcp.NoLogLevel && b.s.About().Facts.Has(wire.ServerLogging)
}

// mayReceiveOnStanding reports whether the standing stream may carry messages about q. For a server
// on a pipe, lanes attributes the progress notifications.
func (b *pooledSession) mayReceiveOnStanding(q *stateless.Request) bool {
	return b.wantsLogs(q) || q.ProgressToken != nil && !b.s.Piped()
}

// join adds a call to the session's parked calls, before the call is sent.
func (b *pooledSession) join(d *parkedCall) {
	b.mu.Lock()
	if b.parkedCalls == nil {
		b.parkedCalls = map[*parkedCall]bool{}
	}
	b.parkedCalls[d] = true
	b.mu.Unlock()
	if d.first.MayAsk() {
		b.begin(d)
	}
}

// leave removes a call from the session's parked calls, and reports whether it can no longer come to d from there.
func (b *pooledSession) leave(d *parkedCall) (alone bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.parkedCalls, d)
	b.inFlight = slices.DeleteFunc(b.inFlight, func(other *parkedCall) bool { return other == d })
	return b.lent == 0
}

// lend returns the open calls in which the server may ask, oldest first, and how many there have been. Until the caller calls
// giveBack, none of them is used for another request.
func (b *pooledSession) lend() (talks []*parkedCall, joined int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.lent++
	return slices.Clone(b.inFlight), b.joined
}

// giveBack says that what lend or about has returned is no longer used.
func (b *pooledSession) giveBack() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.lent--
}

// about returns the call that a notification on the standing stream belongs to, or nil. In both cases the caller calls
// giveBack.
func (b *pooledSession) about(m *wire.Message) *parkedCall {
	b.mu.Lock()
	b.lent++
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
		if b.s.Piped() {
			return nil // lanes attributed it when it arrived
		}
		var only *parkedCall
		for _, d := range all {
			switch {
			case d.first.LogLevel == mcp.NoLogLevel:
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

// hasProgressToken reports whether token is the progress token that the server received for the
// call.
func (d *parkedCall) hasProgressToken(token string) bool { return token == "p"+d.call }
