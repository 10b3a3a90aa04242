package proxy

import (
	"strings"

	"github.com/dragoman-proxy/dragoman/proxy/principal"
	"github.com/dragoman-proxy/dragoman/proxy/shape"
	"github.com/dragoman-proxy/dragoman/translate/wire"
)

// want notes what package shape must know about x's request.
func (x *exchange) want(m *wire.Message) {
	if x.call == nil {
		return
	}
	w := x.srv.Now().Shaping.Want(m, x.caller, x.maxTokens)
	x.call.More.Wanted = w
	if x.ownCall != nil && x.ownCall.Call != nil {
		x.ownCall.Call.Wanted = w
	}
}

// shaped returns the result as the client gets it, which is out if there is nothing to shape.
// m is the message that out was translated from.
func (x *exchange) shaped(out []byte, m *wire.Message) []byte {
	s := x.srv.Now().Shaping
	if s == nil {
		return out
	}
	if m.Method == wire.ToolsList {
		return x.own(s.List(out, x.srv.Host.Log), out)
	}
	c := x.met
	if x.final {
		c = x.call
	}
	var w *shape.Wanted
	if c != nil {
		w = c.More.Wanted
	}
	return x.own(s.Result(out, m, w, (*exchangeView)(x)), out)
}

// caller returns a text that stands for the credentials of the request, or "" if there are none.
func (x *exchange) caller() (mark string) {
	for _, h := range x.from {
		if strings.EqualFold(h.Name, "Authorization") {
			mark = principal.Mark(h.Value)
		}
	}
	for _, h := range x.sender.Header { // no other client may read what an API gave to this one
		mark += "/" + principal.Mark(h.Name+"\x00"+h.Value)
	}
	return mark
}
