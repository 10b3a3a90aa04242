package proxy

import (
	"runtime/debug"

	"go.uber.org/zap"

	"github.com/dragoman-proxy/dragoman/proxy/failures"
	"github.com/dragoman-proxy/dragoman/proxy/mcp"
	"github.com/dragoman-proxy/dragoman/proxy/metrics"
	"github.com/dragoman-proxy/dragoman/translate/wire"
)

// A panic is a fault of ours, and costs the one message that it happened at: its call
// is answered with an error, and the session goes on. Panics are recovered where the
// id of the call is known.

// panicked logs a panic that was recovered.
func (srv *Server) panicked(p any) {
	srv.metrics.Failures.WithLabelValues(string(failures.Panic)).Inc()
	srv.log.Error("panic", zap.String("cause", string(failures.Panic)), zap.String("advice", failures.Panic.Advice()),
		zap.String("version", ownVersion()), zap.Any("panic", p), zap.ByteString("stack", debug.Stack()))
}

// contained runs a task, and reports whether it came to its end: a panic is logged, and
// goes no further.
func (srv *Server) contained(task func()) (ended bool) {
	defer func() {
		if p := recover(); p != nil {
			srv.panicked(p)
		}
	}()
	task()
	return true
}

// panicked is the answer to x's message raw, at which there was a panic. Its id is nil
// where the message is no request.
func (x *exchange) panicked(p any, raw []byte) *mcp.Failure {
	x.srv.panicked(p)
	f := mcp.Fail(mcp.Panicked, "")
	if x.call != nil {
		return f.About([]byte(x.call.ID)) // raw may have been rewritten
	}
	return f.About(idOf(raw))
}

// afterPanic is what the client gets in the place of a message of the server at which
// there was a panic: the error for the call that it answers. A request of the server
// is refused, and a notification is dropped.
func (x *exchange) afterPanic(p any, raw []byte) (out []byte, ok bool) {
	x.srv.panicked(p)
	x.verdict = metrics.Failed
	f := mcp.Fail(mcp.Panicked, "")
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
		c = x.s.open.Take(wire.AppendIDKey(nil, m.ID()))
		x.met = c
	}
	if c == nil || c.More.answers != nil {
		return nil, false
	}
	return f.About(x.crossing.rename([]byte(c.ID))).Body(), true
}
