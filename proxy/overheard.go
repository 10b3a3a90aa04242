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
func (b *backing) wantsLogs(q *modernRequest) bool {
	return q.level != mcp.NoLogLevel && b.s.Facts.Has(wire.ServerLogging)
}

// overhears reports whether something about q may come on the standing stream. What a
// server on a pipe says of it, its lanes sort out.
func (b *backing) overhears(q *modernRequest) bool {
	return b.wantsLogs(q) || q.token != nil && !b.s.piped
}

// takePart enters a dialogue before its call is sent.
func (b *backing) takePart(d *dialogue) {
	b.mu.Lock()
	if b.dialogues == nil {
		b.dialogues = map[*dialogue]bool{}
	}
	b.dialogues[d] = true
	b.mu.Unlock()
	if d.first.mayAsk() {
		b.converse(d)
	}
}

// partWith ends that.
func (b *backing) partWith(d *dialogue) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.dialogues, d)
	b.talks = slices.DeleteFunc(b.talks, func(other *dialogue) bool { return other == d })
}

// about is the call that a notification of the standing stream is about, nil for none.
func (b *backing) about(m *wire.Message) *dialogue {
	b.mu.Lock()
	var newest *dialogue
	if n := len(b.talks); n > 0 {
		newest = b.talks[n-1]
	}
	all := make([]*dialogue, 0, len(b.dialogues))
	for d := range b.dialogues {
		all = append(all, d)
	}
	b.mu.Unlock()
	switch m.Method {
	case wire.Progress:
		token := gjson.Get(view(m.Params()), "progressToken").String()
		for _, d := range all {
			if d.knownBy(token) {
				return d
			}
		}
		return nil
	case wire.LogMessage:
		if b.s.piped {
			return nil // its lanes have found out, when it came
		}
		var only *dialogue
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
func (d *dialogue) knownBy(token string) bool { return token == "p"+d.call }
