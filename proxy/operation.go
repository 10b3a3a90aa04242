package proxy

import (
	"net"

	"github.com/tidwall/gjson"

	"github.com/dragoman-proxy/dragoman/proxy/bridge/legacyclient"
	"github.com/dragoman-proxy/dragoman/proxy/clienterror"
	"github.com/dragoman-proxy/dragoman/proxy/failures"
	"github.com/dragoman-proxy/dragoman/proxy/mcp"
	"github.com/dragoman-proxy/dragoman/proxy/metrics"
	"github.com/dragoman-proxy/dragoman/proxy/observe"
	"github.com/dragoman-proxy/dragoman/proxy/origin"
	"github.com/dragoman-proxy/dragoman/proxy/report"
	"github.com/dragoman-proxy/dragoman/proxy/share"
	"github.com/dragoman-proxy/dragoman/translate/wire"
)

// connected tells the metrics how clients and the server are connected.
func (srv *sessions) connected() {
	e := metrics.Ends{Client: "tcp", Server: "pipe"}
	if srv.personal.Load() {
		e.Client = "pipe"
	}
	if host, _, err := net.SplitHostPort(srv.now().Address); err == nil {
		e.Server, e.Address = "tcp", host
	}
	srv.metrics.Connect(e)
}

// operation returns what metrics count of the request c of s's client.
func (s *session) operation(c *call, how metrics.Outcome, why metrics.Fault) metrics.Operation {
	return metrics.Operation{
		Client: s.ClientRevision, Server: s.ServerRevision, Method: c.Method, Tool: c.More.tool,
		Outcome: how, Fault: why, Began: c.Began, Trace: c.More.span.TraceID(),
	}
}

// toolOf returns the tool that x's request calls, or nil.
func (x *exchange) toolOf(m *wire.Message) *metrics.Tool {
	if m.Method != wire.ToolsCall {
		return nil
	}
	if own := x.srv.now().OwnFor(&x.sender); x.ownCall != nil && own != nil {
		name := gjson.ParseBytes(m.Name()).Str
		if t, _ := own.Find(name); t.Listed {
			return x.srv.metrics.Tools.Listed(name)
		}
	}
	return x.srv.metrics.Tools.Of(m.Name())
}

// failed reports that x's request failed, and returns what its client gets.
func (x *exchange) failed(err error) *mcp.Failure {
	f := x.srv.host.Report.Failed(err, x.requestInfo())
	x.fault = report.FaultOf(f)
	return f
}

// countSession counts a session that has ended because of why.
func (srv *sessions) countSession(s *session, why error) {
	if s.direct != nil {
		return // there are no sessions
	}
	srv.watchedPipes.Delete(s)
	if srv.observer.Watched() {
		srv.observer.Session(observe.Session{Ended: true, Peers: *s.peers(), Why: clienterror.Reason(why)})
	}
	ended := metrics.Session{Client: s.ClientRevision, Server: s.ServerRevision, Began: s.Made}
	if s.owner != "" {
		ended.Client = nil // it is a session for clients without sessions
	}
	switch s.conn.(type) {
	case *share.Conn, *legacyclient.Conn, origin.NoServer:
		ended.Server = nil // the server knows no session of this client
	}
	f := clienterror.Of(why)
	if f.Cause != mcp.SessionUnknown {
		ended.Cause = report.CauseOf(&srv.now().Config, f, report.At{})
	}
	if ended.Cause == failures.ClientLeft {
		ended.Cause = ""
	}
	srv.metrics.SessionEnded(ended)
}
