package exchange

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"time"

	"go.uber.org/zap"

	"github.com/dragoman-proxy/dragoman/proxy/bytes/sse"
	"github.com/dragoman-proxy/dragoman/proxy/ops/report"
	"github.com/dragoman-proxy/dragoman/proxy/pipes"
	"github.com/dragoman-proxy/dragoman/proxy/protocol/crossing"
	"github.com/dragoman-proxy/dragoman/proxy/protocol/mcp"
	"github.com/dragoman-proxy/dragoman/proxy/session"
	"github.com/dragoman-proxy/dragoman/proxy/transport/downstream"
	"github.com/dragoman-proxy/dragoman/proxy/transport/upstream"
)

// Published SDKs close their client when a message of a session is answered with a 5xx.
// Within a session a failure of the server is therefore only the JSON-RPC error, with
// status 200. Other statuses tell the client what to do and stay: the challenges 401 and
// 403, 404 for a lost session, 429, and our own 503 with Retry-After.

// MayListenLater reports whether a server that has refused a standing stream may grant it later: after a failure whose status for
// the client is 500 or above, and after 409, with which a server says that the stream is still open, although its client has lost it.
func MayListenLater(err error) bool {
	return upstream.IsConflict(err) || report.FailureOf(err).Status >= http.StatusInternalServerError
}

// Standing is a standing stream of the server, which is read for one client. While it is parked, it holds no Exchange: most
// standing streams are quiet for as long as their client stays.
type Standing struct {
	x     *Exchange // nil while the stream is parked
	rest  resting
	later *upstream.ListenOptions // how to open the stream that the server has refused for a reason that may pass; nil if it is open
	stop  context.CancelCauseFunc
}

// resting is what a parked stream keeps of its Exchange.
type resting struct {
	common    *Common
	session   *session.Session
	ctx       context.Context
	stream    upstream.Stream
	from      []mcp.Header
	resumeAt  []byte
	retry     time.Duration
	sender    downstream.Sender
	peer      string
	maxTokens int
	crossing  *crossing.Crossing
	asked     bool
	streamed  bool
}

// Stand returns the standing stream that x reads, or will read. Done of the Standing ends x.
func (x *Exchange) Stand() *Standing { return &Standing{x: x, stop: x.Stop} }

// OpenLater makes Listen open the stream, which the server has refused for a reason that may pass.
func (s *Standing) OpenLater(o upstream.ListenOptions) { s.later = &o }

// Awake returns the Exchange of s, which is valid until Park.
func (s *Standing) Awake() *Exchange {
	if s.x == nil {
		x, r := s.rest.common.New(s.rest.ctx, s.stop), &s.rest
		x.Session, x.Stream, x.Retry, x.Streamed = r.session, r.stream, r.retry, r.streamed
		x.From, x.ResumeAt = append(x.From, r.from...), append(x.ResumeAt, r.resumeAt...)
		x.Sender, x.Peer, x.MaxTokens, x.Clock.Asked, x.Crossing = r.sender, r.peer, r.maxTokens, r.asked, r.crossing
		s.x, s.rest = x, resting{}
	}
	return s.x
}

// Park parks the stream after Answer has returned sse.ErrInterrupted, as [upstream.Stream] has it. If it returns true, another
// goroutine may already use s.
func (s *Standing) Park(w mcp.Waker) bool {
	x := s.x
	if x.Call != nil || x.injected != nil { // x is needed
		x.Stream.Park(nil)
		return false
	}
	s.rest = resting{
		common: x.Common, session: x.Session, ctx: x.Ctx, stream: x.Stream, from: slices.Clone(x.From),
		resumeAt: slices.Clone(x.ResumeAt), retry: x.Retry, sender: x.Sender, peer: x.Peer, maxTokens: x.MaxTokens,
		crossing: x.Crossing, asked: x.Clock.Asked, streamed: x.Streamed,
	}
	s.x = nil
	x.clear()
	x.recycle()
	if s.rest.stream.Park(w) {
		return true
	}
	s.Awake()
	return false
}

// Stop ends the stream because of why. It may be called at any time before Done.
func (s *Standing) Stop(why error) { s.stop(why) }

// Done ends the Exchange of s.
func (s *Standing) Done() { s.Awake().Done() }

// Listen sends the client the events of the stream until it ends: first those that are kept for it. If nothing comes, the error
// may be downstream.ErrParked, as Listen of [downstream.Response] has it.
func (s *Standing) Listen(client mcp.Peer, w mcp.Waker) error {
	if s.later != nil && !s.open() {
		return nil
	}
	x := s.Awake()
	for _, e := range x.replay {
		if err := client.Send(e); err != nil {
			return err
		}
	}
	x.replay = nil
	if x.Ctx.Err() != nil {
		return nil // what comes waits for the next stream
	}
	x.client = httpClient{x: x, to: client}
	last, err := x.Answer(&x.client)
	for err == sse.ErrInterrupted {
		if s.Park(w) {
			return downstream.ErrParked
		}
		x = s.x
		x.client = httpClient{x: x, to: client}
		last, err = x.Answer(&x.client)
	}
	if err != nil {
		var ok bool
		if last, ok = x.late(err); !ok {
			return nil
		}
	}
	return x.client.Send(last)
}

// open opens the stream that the server has refused for a reason that may pass. The client's
// stream stays open in the meantime, since published SDKs close their client, or ask again at once, if the stream is
// refused or ends. The server is asked again as [MayListenLater] says. After any other failure open returns false: the
// client opens its stream again, and then receives the failure.
func (s *Standing) open() bool {
	x := s.x
	for again := new(pipes.Reopening); again.Wait(x.Ctx, 0) == nil; {
		st, err := x.Common.Listen(x.Ctx, x.Session, *s.later)
		switch {
		case err == nil:
			x.Stream, s.later = st, nil
			if x.Session.Renewing != nil {
				x.Session.Renewing.MayHaveMissed()
			}
			return true
		case errors.Is(err, upstream.ErrNoStream), !MayListenLater(err):
			return false
		}
		x.log().Debug("cannot open the server's standing stream: it is tried again", zap.Error(err))
	}
	return false
}
