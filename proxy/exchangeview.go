package proxy

import (
	"go.uber.org/zap"

	"github.com/dragoman-proxy/dragoman/proxy/downstream"
	"github.com/dragoman-proxy/dragoman/proxy/toolindex"
	"github.com/dragoman-proxy/dragoman/proxy/upstream"
	"github.com/dragoman-proxy/dragoman/translate"
	"github.com/dragoman-proxy/dragoman/translate/wire"
)

// exchangeView is an exchange as the packages of single features see it. It implements
// [owntools.Client] and [shape.Exchange].
type exchangeView exchange

func (x *exchangeView) Revision() *translate.Revision { return x.s.ClientRevision }
func (x *exchangeView) Session() string               { return x.s.Who() }
func (x *exchangeView) Caller() string                { return (*exchange)(x).caller() }
func (x *exchangeView) Sender() downstream.Sender     { return x.sender }
func (x *exchangeView) Header() []upstream.Header     { return x.from }
func (x *exchangeView) Panicked(p any)                { x.srv.Host.Report.Panicked(p) }

func (x *exchangeView) CanAsk() bool {
	return x.s.ClientRevision.Elicitation && x.s.Facts.Has(wire.ClientElicitationForm)
}

func (x *exchangeView) CanShow() bool {
	return x.srv.Personal.Load() && x.s.ClientRevision.Elicitation && x.s.Facts.Has(wire.ClientElicitationURL)
}

func (x *exchangeView) MaxTokens() int                  { return x.maxTokens }
func (x *exchangeView) Own() bool                       { return x.ownCall != nil }
func (x *exchangeView) Tool(name string) toolindex.Tool { return (*exchange)(x).tool(name) }
func (x *exchangeView) Log() *zap.Logger                { return (*exchange)(x).log() }

func (x *exchangeView) Counted(before, after int) {
	of := (*exchange)(x)
	of.answeredSpan(&of.msg).Counted(before, after)
	of.counted = [2]int{before, after}
}
