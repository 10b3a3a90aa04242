package proxy

import (
	"time"

	"github.com/tidwall/gjson"

	"github.com/dragoman-proxy/dragoman/proxy/clienterror"
	"github.com/dragoman-proxy/dragoman/proxy/failures"
	"github.com/dragoman-proxy/dragoman/proxy/mcp"
	"github.com/dragoman-proxy/dragoman/proxy/principal"
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
		Quote:   func(text string) string { return failures.Quote(text, srv.now().Secrets) },
		Cause: func(err error) string {
			return string(report.CauseOf(&srv.now().Config, clienterror.Of(err), report.At{}))
		},
		Named:   func(name string) string { return srv.now().Redactor.Text(name) },
		Address: func() string { return srv.now().Address },
		Payload: func(method, tool string, raw []byte) []byte {
			if now := srv.now(); now.Config.Telemetry.Payloads {
				return now.Redactor.Payload(method, tool, raw)
			}
			return nil
		},
	}
}

// beginSpan begins the spans of the client's message m, before translation changes it.
func (x *exchange) beginSpan(m *wire.Message) {
	switch {
	case x.srv.tracer == nil || m.Kind.Response():
		return
	case x.tally != nil: // the client's request may take more than one exchange
		if x.span = x.tally.Span(); x.span != nil {
			x.span.To(x.serverEdge())
		}
		return
	}
	if p, yes := x.srv.tracer.Samples(m.Params(), x.from, nil); yes {
		x.span = x.srv.tracer.Begin(p, spanOf(m, x.clock.Began()), x.clientEdge(), x.serverEdge())
		x.ctx = x.span.Within(x.ctx)
	}
}

// spanWithout begins the spans of the request m of a client without a session, or returns nil.
func (srv *Server) spanWithout(m *wire.Message, header []upstream.Header, peer string) *telemetry.Call {
	p, yes := srv.tracer.Samples(m.Params(), header, nil)
	if !yes {
		return nil
	}
	client := telemetry.Edge{Revision: translate.Modern(), Address: peer}
	return srv.tracer.Begin(p, spanOf(m, time.Now()), client, telemetry.Edge{Address: srv.now().Address})
}

// beginSpan begins the span of the client's initialize, raw.
func (h *handshake) beginSpan(raw []byte) {
	if h.srv.tracer == nil {
		return
	}
	params := []byte(gjson.GetBytes(raw, "params").Raw)
	if p, yes := h.srv.tracer.Samples(params, h.Header, nil); yes {
		m := telemetry.Message{Method: wire.Initialize.String(), ID: h.ID, Params: params, Began: time.Now()}
		h.span = h.srv.tracer.Begin(p, m, telemetry.Edge{Revision: h.vc.Name, Address: h.peer}, telemetry.Edge{})
	}
}

// questionSpan begins the spans of the server's question m.
func (x *exchange) questionSpan(m *wire.Message, began time.Time) *telemetry.Call {
	if x.srv.tracer == nil {
		return nil
	}
	var during *telemetry.Call
	if x.call != nil {
		during = x.call.More.span
	}
	if p, yes := x.srv.tracer.Samples(m.Params(), nil, during); yes {
		return x.srv.tracer.Begin(p, spanOf(m, began), x.serverEdge(), x.clientEdge())
	}
	return nil
}

// endQuestion ends the spans, and the observation, of the question that the client's response m answers.
func (x *exchange) endQuestion(m *wire.Message) {
	if x.met != nil {
		x.met.More.span.Answered(m)
		x.met.More.span.End("ok", "")
		if c := x.met.More.seen; c != nil && c.Server {
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
	return c.More.span
}

func spanOf(m *wire.Message, began time.Time) telemetry.Message {
	return telemetry.Message{Method: string(m.MethodName()), ID: m.ID(), Params: m.Params(), Began: began}
}

func (x *exchange) clientEdge() telemetry.Edge {
	return telemetry.Edge{Revision: x.s.ClientRevision.Name, Session: x.s.fingerprints().client, Address: x.peer}
}

func (x *exchange) serverEdge() telemetry.Edge {
	return telemetry.Edge{Revision: x.s.ServerRevision.Name, Session: x.s.fingerprints().server, Address: x.srv.now().Address}
}

// marks are the fingerprints of the ids of a session.
type marks struct{ client, server string }

func (s *session) fingerprints() *marks {
	m := s.marks.Load()
	if m == nil {
		m = &marks{fingerprint(s.id), fingerprint(s.Named)}
		s.marks.Store(m)
	}
	return m
}

// fingerprint returns a text that stands for a session's id, which itself would grant access.
func fingerprint(id string) string {
	if id == "" {
		return ""
	}
	return principal.Mark(id)[:16]
}
