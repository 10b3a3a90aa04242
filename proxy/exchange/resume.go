package exchange

import (
	"go.uber.org/zap"

	"github.com/dragoman-proxy/dragoman/proxy/server"
	"github.com/dragoman-proxy/dragoman/proxy/session"
	"github.com/dragoman-proxy/dragoman/proxy/upstream"
)

// ResumeStream makes x continue after the client's last event, or opens a new standing stream if that
// event is unknown. The kept events are sent again even if some are lost, since the response
// of a call is the last of them.
func (x *Exchange) ResumeStream(l *session.Lanes, lastEventID string) error {
	if lastEventID == "" {
		return x.stand(l)
	}
	b, again, lost := l.Trails.Find(x.Ctx, lastEventID, x.Stop)
	if lost != 0 {
		x.log().Info("events were lost on a resumed stream", zap.Int("lost", lost))
	}
	if b == nil {
		return x.stand(l)
	}
	x.buffer, x.replay = b, again
	c, _ := b.Call().(*resumableCall)
	switch {
	case c == nil:
		st, err := x.Common.Listen(x.Ctx, x.Session, upstream.ListenOptions{})
		if err != nil {
			return err
		}
		x.Attach(st)
	case b.Over():
		x.answered = true // no event follows
	case !c.open.Reopen(c.call, x.Stop): // cancelled, or forgotten as there were too many open requests
		c.stream.Close()
		b.Finish()
		x.answered = true
	default:
		x.Call, x.Resumed = c.call, true
		c.stream = l.Move(x.Ctx, c.stream)
		x.Attach(c.stream)
	}
	return nil
}

// stand opens a new standing stream for x.
func (x *Exchange) stand(l *session.Lanes) error {
	st, err := x.Common.Listen(x.Ctx, x.Session, upstream.ListenOptions{})
	if err != nil {
		return err
	}
	x.Attach(st)
	x.buffer = l.Trails.Begin(nil, x.Stop)
	return nil
}

// resumableCall is a call whose stream a client may resume. It implements [replay.Call].
type resumableCall struct {
	call   *session.Call
	open   *session.Calls
	stream *server.Stream // the server's stream for the call
}

func (c *resumableCall) Cancelled() bool { return c.call.Cancelled.Load() }

func (c *resumableCall) End() {
	c.open.End(c.call)
	c.stream.Close()
}
