package proxy

import (
	"github.com/dragoman-proxy/dragoman/proxy/mcp"
	"github.com/dragoman-proxy/dragoman/proxy/metrics"
	"github.com/dragoman-proxy/dragoman/proxy/report"
	"github.com/dragoman-proxy/dragoman/translate/wire"
)

// A panic is a bug in dragoman. Only the message that was being handled is lost: its call gets an
// error response, and the session continues. Panics are recovered where the id of the call is
// known.

// panicked returns the error response to x's message raw, whose handling panicked. Its id is nil if
// the message is not a request.
func (x *exchange) panicked(p any, raw []byte) *mcp.Failure {
	x.srv.Host.Report.Panicked(p)
	f := mcp.Fail(mcp.Panicked, "")
	x.fault = report.FaultOf(f)
	if x.call != nil {
		return f.About([]byte(x.call.ID)) // raw may have been rewritten
	}
	return f.About(idOf(raw))
}

// afterPanic returns what the client receives instead of a message of the server whose handling
// panicked: the error response to the call that the message answers. A request of the server is
// refused, and a notification is dropped.
func (x *exchange) afterPanic(p any, raw []byte) (out []byte, ok bool) {
	x.srv.Host.Report.Panicked(p)
	f := mcp.Fail(mcp.Panicked, "")
	x.verdict, x.fault = metrics.Failed, report.FaultOf(f)
	c, m := x.met, new(wire.Message)
	switch {
	case x.final:
		c = x.call
	case c != nil: // raw may have been rewritten
	case m.Scan(raw, nil) != nil:
		return nil, false
	case m.Kind == wire.Request:
		x.forgetAsked(m.ID())
		x.reply(mcp.AppendError(nil, m.ID(), f.Code, f.Text, nil))
		return nil, false
	case !m.Kind.Response():
		return nil, false
	case x.isAnswer(m):
		c = x.call
	default:
		c = x.s.Open.Take(wire.AppendIDKey(nil, m.ID()))
		x.met = c
	}
	if c == nil || c.More.Answers != nil {
		return nil, false
	}
	return f.About(x.crossing.Rename([]byte(c.ID))).Body(), true
}
