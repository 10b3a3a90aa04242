package proxy

import (
	"github.com/dragoman-proxy/dragoman/proxy/clienterror"
	"github.com/dragoman-proxy/dragoman/proxy/failures"
	"github.com/dragoman-proxy/dragoman/proxy/mcp"
	"github.com/dragoman-proxy/dragoman/proxy/report"
	"github.com/dragoman-proxy/dragoman/proxy/telemetry"
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
