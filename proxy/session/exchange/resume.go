package exchange

import (
	"context"
	"errors"
	"io"
	"time"

	"go.uber.org/zap"

	"github.com/dragoman-proxy/dragoman/proxy/bytes/sse"
	"github.com/dragoman-proxy/dragoman/proxy/observe"
	"github.com/dragoman-proxy/dragoman/proxy/origin/restart"
	"github.com/dragoman-proxy/dragoman/proxy/pipes"
	"github.com/dragoman-proxy/dragoman/proxy/protocol/mcp"
	"github.com/dragoman-proxy/dragoman/proxy/protocol/requests"
	"github.com/dragoman-proxy/dragoman/proxy/session"
	"github.com/dragoman-proxy/dragoman/proxy/transport/upstream"
)

// ResumeStream makes x continue after the client's last event, or opens a new standing stream if that
// event is unknown. The kept events are sent again even if some are lost, since the response
// of a call is the last of them.
func (x *Exchange) ResumeStream(l *session.Lanes, lastEventID string) error {
	if lastEventID == "" {
		return x.begin(l)
	}
	b, again, lost := l.Trails.Find(x.Ctx, lastEventID, x.Stop)
	if lost != 0 {
		x.log().Info("events were lost on a resumed stream", zap.Int("lost", lost))
	}
	if b == nil {
		return x.begin(l)
	}
	x.buffer, x.replay = b, again
	switch c := b.Call(); {
	case c == nil:
		return x.stand()
	case b.Over():
		x.answered = true // no event follows
	case !c.Open.Reopen(c.Call, x.Stop): // cancelled, or forgotten as there were too many open requests
		c.Stream.Close()
		b.Finish()
		x.answered = true
	default:
		x.Call, x.Resumed = c.Call, true
		c.Stream = l.Move(x.Ctx, c.Stream)
		x.lane = c.Stream
		x.Stream = c.Stream
	}
	return nil
}

// begin makes x read a new standing stream, and keeps its events.
func (x *Exchange) begin(l *session.Lanes) error {
	err := x.stand()
	if err == nil {
		x.buffer = l.Trails.Begin(nil, x.Stop)
	}
	return err
}

// stand opens a standing stream for x.
func (x *Exchange) stand() (err error) {
	x.Stream, err = x.Common.Listen(x.Ctx, x.Session, upstream.ListenOptions{})
	return err
}

// These constants bound how a stream is resumed that the server closed before it sent the response.
const (
	maxResumes   = 5                // attempts in a row without a message between them
	resumeWait   = time.Second      // the wait if the server named none
	maxRetryWait = 30 * time.Second // the longest wait, whatever the server named
)

// ended returns the error for a stream that has ended with err, or nil if the stream was resumed.
func (x *Exchange) ended(err error) error {
	switch {
	case x.Call == nil:
		return err
	case x.Call.Cancelled.Load(), errors.Is(err, requests.ErrCancelled):
		return io.EOF // no answer is owed
	case x.Ctx.Err() != nil:
		return context.Cause(x.Ctx)
	case !errors.Is(err, io.EOF):
		return err
	case x.bad != nil:
		return x.bad
	case len(x.ResumeAt) == 0 || x.Resumes >= maxResumes || !x.Session.Direct.Resumes():
		return mcp.Fail(mcp.UpstreamSilent, "")
	case !x.mayWait():
		return sse.ErrInterrupted
	}
	return x.resume()
}

// mayWait reports whether Answer may wait for anything but the stream.
func (x *Exchange) mayWait() bool { return x.asker == nil || x.asker.MayWait() }

// sendAgain sends x's request in another server session: the server does not know the session of
// the request, and so has not processed it.
func (x *Exchange) sendAgain(c *restart.HTTP) error {
	x.resent = true
	x.Call.Refused()
	x.Seen.Note(observe.Note{By: observe.Restart, What: "sent_again", Detail: "the server did not know the session: the request is sent again in a new one"})
	if err := c.Renew(x.Ctx, x.began, x.From); err != nil {
		return x.ended(err)
	}
	if !x.Call.SendsAgain() {
		return io.EOF
	}
	x.began, x.within = c.Number(), c.SessionID()
	st, err := c.Send(x.Ctx, &x.Outgoing)
	if err != nil {
		return x.ended(err)
	}
	x.Stream.Close()
	x.Stream = st
	return nil
}

// cancelIn sends the cancellation of a request in the server's session of c. If the server has lost that, the request is gone with it, and the
// server gets the cancellation only if it has got the request again, in the session that has begun in its place.
func (x *Exchange) cancelIn(c *restart.HTTP, over *session.Call) error {
	was := c.Number()
	_, err := c.HTTPSession.Send(x.Ctx, &x.Outgoing)
	switch {
	case err == nil || !restart.IsLost(err):
		return err
	case !over.WasSentAgain():
		return nil
	}
	if err = c.Renew(x.Ctx, was, x.From); err == nil {
		_, err = c.HTTPSession.Send(x.Ctx, &x.Outgoing)
	}
	return err
}

// resume reopens a stream that the server closed before it sent the response. The client does not
// notice. See "Resumability and Redelivery",
// https://modelcontextprotocol.io/specification/2025-11-25/basic/transports#resumability-and-redelivery.
func (x *Exchange) resume() error {
	x.Resumes++
	wait := resumeWait
	if x.Retry > 0 {
		wait = min(x.Retry, maxRetryWait)
	}
	if err := pipes.Sleep(x.Ctx, wait); err != nil {
		return x.ended(err)
	}
	o := upstream.ListenOptions{LastEventID: string(x.ResumeAt), Header: x.From}
	st, err := upstream.Stream(nil), error(nil)
	if c := x.Session.Renewing; c != nil {
		st, err = c.Resume(x.Ctx, x.began, o)
	} else {
		st, err = x.Session.Conn.Listen(x.Ctx, o)
	}
	if err != nil {
		if errors.Is(err, upstream.ErrNoStream) {
			return mcp.Fail(mcp.UpstreamSilent, "")
		}
		return err
	}
	x.Stream.Close()
	x.Stream = st
	return nil
}
