package exchange

import (
	"strings"

	"go.uber.org/zap"

	"github.com/dragoman-proxy/dragoman/proxy/bytes/large"
	"github.com/dragoman-proxy/dragoman/proxy/protocol/mcp"
	"github.com/dragoman-proxy/dragoman/proxy/protocol/toolindex"
	"github.com/dragoman-proxy/dragoman/proxy/replicas/principal"
	"github.com/dragoman-proxy/dragoman/proxy/transport/downstream"
	"github.com/dragoman-proxy/dragoman/translate"
	"github.com/dragoman-proxy/dragoman/translate/wire"
)

// view is an exchange as the packages of single features see it. It implements
// [owntools.Client] and [shape.Exchange].
type view struct{ x *Exchange }

func (v view) Revision() *translate.Revision { return v.x.Session.ClientRevision }
func (v view) Session() string               { return v.x.Session.Who() }
func (v view) Caller() string                { return v.x.caller() }
func (v view) Sender() downstream.Sender     { return v.x.Sender }
func (v view) Header() []mcp.Header          { return v.x.From }
func (v view) Memory() *large.Memory         { return v.x.Common.Host.Memory() }
func (v view) Panicked(p any)                { v.x.Common.Host.Report.Panicked(p) }

func (v view) CanAsk() bool {
	return v.x.Session.ClientRevision.Elicitation && v.x.Session.Facts.Has(wire.ClientElicitationForm)
}

func (v view) CanShow() bool {
	return v.x.Common.Personal.Load() && v.x.Session.ClientRevision.Elicitation && v.x.Session.Facts.Has(wire.ClientElicitationURL)
}

func (v view) MaxTokens() int   { return v.x.MaxTokens }
func (v view) Own() bool        { return v.x.OwnCall != nil }
func (v view) Log() *zap.Logger { return v.x.log() }

func (v view) Tool(name string) (t toolindex.Tool) {
	if own := v.x.Common.Now().OwnFor(&v.x.Sender); v.x.OwnCall != nil && own != nil {
		t, _ = own.Find(name)
	} else {
		t, _ = v.x.Session.Tools.Find(name)
	}
	return t
}

func (v view) Counted(before, after int) {
	v.x.answeredSpan(&v.x.Msg).Counted(before, after)
	v.x.counted = [2]int{before, after}
}

// caller returns a text that stands for the credentials of the request, or "" if there are none.
func (x *Exchange) caller() (mark string) {
	for _, h := range x.From {
		if strings.EqualFold(h.Name, "Authorization") {
			mark = principal.Mark(h.Value)
		}
	}
	for _, h := range x.Sender.Header { // no other client may read what an API gave to this one
		mark += "/" + principal.Mark(h.Name+"\x00"+h.Value)
	}
	return mark
}
