package proxy

import (
	"time"

	"github.com/dragoman-proxy/dragoman/proxy/clienterror"
	"github.com/dragoman-proxy/dragoman/proxy/exchange"
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

// spanWithout begins the spans of the request m of a client without a session, or returns nil.
func (srv *fronts) spanWithout(m *wire.Message, header []upstream.Header, peer string) *telemetry.Call {
	p, yes := srv.Tracer.Samples(m.Params(), header, nil)
	if !yes {
		return nil
	}
	client := telemetry.Edge{Revision: translate.Modern(), Address: peer}
	return srv.Tracer.Begin(p, exchange.SpanOf(m, time.Now()), client, telemetry.Edge{Address: srv.Now().Address})
}
