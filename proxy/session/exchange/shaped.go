package exchange

import (
	"github.com/dragoman-proxy/dragoman/proxy/features/shape"
	"github.com/dragoman-proxy/dragoman/translate/wire"
)

// want notes what package shape must know about x's request.
func (x *Exchange) want(m *wire.Message) {
	if x.Call == nil {
		return
	}
	w := x.Common.Now().Shaping.Want(m, x.caller, x.MaxTokens)
	if w != nil {
		w.Structured = x.Session.ClientRevision.Structured
	}
	x.Call.More.Wanted = w
	if x.OwnCall != nil && x.OwnCall.Call != nil {
		x.OwnCall.Call.Wanted = w
	}
}

// shaped returns the result as the client gets it, which is out if there is nothing to shape.
// m is the message that out was translated from.
func (x *Exchange) shaped(out []byte, m *wire.Message) []byte {
	s := x.Common.Now().Shaping
	if s == nil {
		return out
	}
	if m.Method == wire.ToolsList {
		return x.own(s.List(out, x.Common.Host.Log), out)
	}
	c := x.Met
	if x.Final {
		c = x.Call
	}
	var w *shape.Wanted
	if c != nil {
		w = c.More.Wanted
	}
	return x.own(s.Result(out, m, w, view{x}), out)
}
