package proxy

import (
	"time"

	"github.com/tidwall/gjson"

	"github.com/dragoman-proxy/dragoman/proxy/clienterror"
	"github.com/dragoman-proxy/dragoman/proxy/failures"
	"github.com/dragoman-proxy/dragoman/proxy/mcp"
	"github.com/dragoman-proxy/dragoman/proxy/report"
	"github.com/dragoman-proxy/dragoman/proxy/telemetry"
	"github.com/dragoman-proxy/dragoman/proxy/upstream"
	"github.com/dragoman-proxy/dragoman/translate"
	"github.com/dragoman-proxy/dragoman/translate/wire"
)

// traced is what telemetry asks of srv.
func (srv *Server) traced() telemetry.Options {
	return telemetry.Options{
		Version: mcp.Version(),
		Quote:   func(text string) string { return failures.Quote(text, srv.Now().Secrets) },
		Cause: func(err error) string {
			return string(report.CauseOf(&srv.Now().Config, clienterror.Of(err), report.At{}))
		},
		Named:   func(name string) string { return srv.Now().Redactor.Text(name) },
		Address: func() string { return srv.Now().Address },
		Payload: func(method, tool string, raw []byte) []byte {
			if now := srv.Now(); now.Config.Telemetry.Payloads {
				return now.Redactor.Payload(method, tool, raw)
			}
			return nil
		},
	}
}

// beginSpan begins the spans of the client's message m, before translation changes it.
func (x *exchange) beginSpan(m *wire.Message) {
	switch {
	case x.srv.Tracer == nil || m.Kind.Response():
		return
	case x.tally != nil: // the client's request may take more than one exchange
		if x.span = x.tally.Span(); x.span != nil {
			x.span.To(x.serverEdge())
		}
		return
	}
	if p, yes := x.srv.Tracer.Samples(m.Params(), x.from, nil); yes {
		x.span = x.srv.Tracer.Begin(p, spanOf(m, x.clock.Began()), x.clientEdge(), x.serverEdge())
		x.ctx = x.span.Within(x.ctx)
	}
}

// spanWithout begins the spans of the request m of a client without a session, or returns nil.
func (srv *Server) spanWithout(m *wire.Message, header []upstream.Header, peer string) *telemetry.Call {
	p, yes := srv.Tracer.Samples(m.Params(), header, nil)
	if !yes {
		return nil
	}
	client := telemetry.Edge{Revision: translate.Modern(), Address: peer}
	return srv.Tracer.Begin(p, spanOf(m, time.Now()), client, telemetry.Edge{Address: srv.Now().Address})
}

// beginSpan begins the span of the client's initialize, raw.
func (h *handshake) beginSpan(raw []byte) {
	if h.srv.Tracer == nil {
		return
	}
	params := []byte(gjson.GetBytes(raw, "params").Raw)
	if p, yes := h.srv.Tracer.Samples(params, h.Header, nil); yes {
		m := telemetry.Message{Method: wire.Initialize.String(), ID: h.ID, Params: params, Began: time.Now()}
		h.span = h.srv.Tracer.Begin(p, m, telemetry.Edge{Revision: h.vc.Name, Address: h.peer}, telemetry.Edge{})
	}
}

// questionSpan begins the spans of the server's question m.
func (x *exchange) questionSpan(m *wire.Message, began time.Time) *telemetry.Call {
	if x.srv.Tracer == nil {
		return nil
	}
	var during *telemetry.Call
	if x.call != nil {
		during = x.call.More.Span
	}
	if p, yes := x.srv.Tracer.Samples(m.Params(), nil, during); yes {
		return x.srv.Tracer.Begin(p, spanOf(m, began), x.serverEdge(), x.clientEdge())
	}
	return nil
}

// endQuestion ends the spans, and the observation, of the question that the client's response m answers.
func (x *exchange) endQuestion(m *wire.Message) {
	if x.met != nil {
		x.met.More.Span.Answered(m)
		x.met.More.Span.End("ok", "")
		if c := x.met.More.Seen; c != nil && c.Server {
			c.End("ok", "")
		}
	}
}

// answeredSpan returns the spans of the request that the server's response m answers.
func (x *exchange) answeredSpan(m *wire.Message) *telemetry.Call {
	c := x.met
	if x.final {
		c = x.call
	}
	if c == nil || !m.Kind.Response() {
		return nil
	}
	return c.More.Span
}

func spanOf(m *wire.Message, began time.Time) telemetry.Message {
	return telemetry.Message{Method: string(m.MethodName()), ID: m.ID(), Params: m.Params(), Began: began}
}

func (x *exchange) clientEdge() telemetry.Edge {
	return telemetry.Edge{Revision: x.s.ClientRevision.Name, Session: x.s.Fingerprints().Client, Address: x.peer}
}

func (x *exchange) serverEdge() telemetry.Edge {
	return telemetry.Edge{Revision: x.s.ServerRevision.Name, Session: x.s.Fingerprints().Server, Address: x.srv.Now().Address}
}
