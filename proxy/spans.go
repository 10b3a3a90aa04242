package proxy

import (
	"net"
	"net/url"
	"time"

	"github.com/dragoman-proxy/dragoman/proxy/config"
	"github.com/dragoman-proxy/dragoman/proxy/principal"
	"github.com/dragoman-proxy/dragoman/proxy/telemetry"
	"github.com/dragoman-proxy/dragoman/translate/wire"
)

// beginSpan begins the spans of the client's message m, before translation changes it.
func (x *exchange) beginSpan(m *wire.Message) {
	if x.srv.tracer == nil || m.Kind.Response() {
		return
	}
	if p, yes := x.srv.tracer.Samples(m.Params(), x.from, nil); yes {
		x.span = x.srv.tracer.Begin(p, spanOf(m, x.clock.Began()), x.clientEdge(), x.serverEdge())
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
	return telemetry.Edge{Revision: x.s.ClientRevision.Name, Session: fingerprint(x.s.id), Address: x.peer}
}

func (x *exchange) serverEdge() telemetry.Edge {
	return telemetry.Edge{Revision: x.s.ServerRevision.Name, Session: fingerprint(x.s.Named), Address: x.srv.now().address}
}

// fingerprint returns a text that stands for a session's id, which itself would grant access.
func fingerprint(id string) string {
	if id == "" {
		return ""
	}
	return principal.Mark(id)[:16]
}

// addressOf returns the host and port of the server, or "" for a process.
func addressOf(cfg config.Upstream) string {
	u, err := url.Parse(cfg.URL)
	if err != nil || u.Host == "" {
		return ""
	}
	port := u.Port()
	if port == "" {
		port = map[string]string{"http": "80", "https": "443"}[u.Scheme]
	}
	return net.JoinHostPort(u.Hostname(), port)
}
