package exchange

import (
	"github.com/dragoman-proxy/dragoman/proxy/ops/metrics"
	"github.com/dragoman-proxy/dragoman/proxy/ops/report"
	"github.com/dragoman-proxy/dragoman/proxy/protocol/mcp"
	"github.com/dragoman-proxy/dragoman/translate/wire"
)

// A panic is a bug in dragoman. Only the message that was being handled is lost: its call gets an
// error response, and the session continues. Panics are recovered where the id of the call is
// known.

// Panicked returns the error response to x's message raw, whose handling panicked. Its id is nil if
// the message is not a request.
func (x *Exchange) Panicked(p any, raw []byte) *mcp.Failure {
	x.Common.Host.Report.Panicked(p)
	f := mcp.Fail(mcp.Panicked, "")
	x.Fault = report.FaultOf(f)
	if x.Call != nil {
		return f.About([]byte(x.Call.ID)) // raw may have been rewritten
	}
	return f.About(IDOf(raw))
}

// afterPanic returns what the client receives instead of a message of the server whose handling
// panicked: the error response to the call that the message answers. A request of the server is
// refused, and a notification is dropped.
func (x *Exchange) afterPanic(p any, raw []byte) (out []byte, ok bool) {
	x.Common.Host.Report.Panicked(p)
	f := mcp.Fail(mcp.Panicked, "")
	x.Verdict, x.Fault = metrics.Failed, report.FaultOf(f)
	c, m := x.Met, new(wire.Message)
	switch {
	case x.Final:
		c = x.Call
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
		c = x.Call
	default:
		c = x.Session.Open.Take(wire.AppendIDKey(nil, m.ID()))
		x.Met = c
	}
	if c == nil || c.More.Answers != nil {
		return nil, false
	}
	return f.About(x.Crossing.Rename([]byte(c.ID))).Body(), true
}

// IDOf returns the id of the request in body, or nil if there is none.
func IDOf(body []byte) []byte {
	var m wire.Message
	if m.Scan(body, nil) != nil || m.Kind != wire.Request {
		return nil
	}
	return m.ID()
}

// ClientGone returns the error response to a question that the client can no longer answer.
func ClientGone(id []byte) []byte {
	return mcp.AppendError(nil, id, mcp.Untranslatable.Code(), "the client has closed its side of the pipe", nil)
}

// unasked returns the error response to a question in a pooled session.
func unasked(id []byte) []byte {
	return mcp.AppendError(nil, id, mcp.Untranslatable.Code(), "the client has no session in which it could be asked", nil)
}
