package exchange

import (
	"time"

	"github.com/dragoman-proxy/dragoman/proxy/ops/telemetry"
	"github.com/dragoman-proxy/dragoman/translate/wire"
)

// beginSpan begins the spans of the client's message m, before translation changes it.
func (x *Exchange) beginSpan(m *wire.Message) {
	switch {
	case x.Common.Tracer == nil || m.Kind.Response():
		return
	case x.Tally != nil: // the client's request may take more than one exchange
		if x.Span = x.Tally.Span(); x.Span != nil {
			x.Span.To(x.serverEdge())
		}
		return
	}
	if p, yes := x.Common.Tracer.Samples(m.Params(), x.From, nil); yes {
		x.Span = x.Common.Tracer.Begin(p, telemetry.MessageOf(m, x.Clock.Began()), x.clientEdge(), x.serverEdge())
		x.Ctx = x.Span.Within(x.Ctx)
	}
}

// questionSpan begins the spans of the server's question m.
func (x *Exchange) questionSpan(m *wire.Message, began time.Time) *telemetry.Call {
	if x.Common.Tracer == nil {
		return nil
	}
	var during *telemetry.Call
	if x.Call != nil {
		during = x.Call.More.Span
	}
	if p, yes := x.Common.Tracer.Samples(m.Params(), nil, during); yes {
		return x.Common.Tracer.Begin(p, telemetry.MessageOf(m, began), x.serverEdge(), x.clientEdge())
	}
	return nil
}

// endQuestion ends the spans, and the observation, of the question that the client's response m answers.
func (x *Exchange) endQuestion(m *wire.Message) {
	if x.Met != nil {
		x.Met.More.Span.Answered(m)
		x.Met.More.Span.End("ok", "")
		if c := x.Met.More.Seen; c != nil && c.Server {
			c.End("ok", "")
		}
	}
}

// answeredSpan returns the spans of the request that the server's response m answers.
func (x *Exchange) answeredSpan(m *wire.Message) *telemetry.Call {
	c := x.Met
	if x.Final {
		c = x.Call
	}
	if c == nil || !m.Kind.Response() {
		return nil
	}
	return c.More.Span
}

func (x *Exchange) clientEdge() telemetry.Edge {
	return telemetry.Edge{Revision: x.Session.ClientRevision.Name, Session: x.Session.Fingerprints().Client, Address: x.Peer}
}

func (x *Exchange) serverEdge() telemetry.Edge {
	return telemetry.Edge{Revision: x.Session.ServerRevision.Name, Session: x.Session.Fingerprints().Server, Address: x.Common.Now().Address}
}
