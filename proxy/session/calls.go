package session

import (
	"context"
	"sync"
	"time"

	"github.com/dragoman-proxy/dragoman/proxy/features/shape"
	"github.com/dragoman-proxy/dragoman/proxy/observe"
	"github.com/dragoman-proxy/dragoman/proxy/ops/metrics"
	"github.com/dragoman-proxy/dragoman/proxy/ops/telemetry"
	"github.com/dragoman-proxy/dragoman/proxy/origin/restart"
	"github.com/dragoman-proxy/dragoman/proxy/pipes"
	"github.com/dragoman-proxy/dragoman/proxy/protocol/requests"
	"github.com/dragoman-proxy/dragoman/proxy/transport/upstream"
	"github.com/dragoman-proxy/dragoman/translate/wire"
)

// calls holds the open requests of one session in one direction; a call is one of them.
type (
	Call  = requests.Request[More]
	Calls = requests.Table[More]
)

// More is what dragoman keeps with an open request.
type More struct {
	Of      *Call           // the call on whose stream the question came; nil for none
	Again   *Repeatable     // the question to ask once more if the answer does not fit; nil for none
	Leaving *Leaving        // what to do when the client has left the call for good; nil for nothing
	Here    bool            // dragoman answers it, and not the server
	Answers chan []byte     // receives the answer to a question of dragoman's own; nil for one of the server
	Span    *telemetry.Call // nil if the request has no spans
	Seen    *observe.Call   // nil if the call is not observed
	Wanted  *shape.Wanted   // what shaping needs to know when the result comes; nil if the result is not shaped

	Tool *metrics.Tool // the tool that it calls, in metrics; nil for none

	// Group and slot are the batch that the request came in, and the index of its response.
	Group *Batch
	Slot  int
}

// Cancelled implements requests.More.
func (b More) Cancelled() {
	if b.Group != nil {
		b.Group.Put(b.Slot, nil)
	}
}

// NewCall returns a call for the request with the given id, which begins now.
func NewCall(id []byte, m wire.Method) *Call { return NewCallAt(id, m, time.Now()) }

// NewCallAt is NewCall for a request that began then.
func NewCallAt(id []byte, m wire.Method, began time.Time) *Call {
	return requests.New[More](id, m, began)
}

// NewCalls returns an empty table of at most max open requests.
func NewCalls(max int) *Calls { return requests.NewTable[More](max) }

// Ask sends the server one of dragoman's own requests, out, as the call c; once more, in a new session, if the server has lost the old one.
// ctx must have a deadline. reply is as in [pipes.Answer].
func (s *Session) Ask(ctx context.Context, c *Call, out *upstream.Outgoing, reply func(response []byte)) (result []byte, err error) {
	c.More.Here, c.More.Answers = true, make(chan []byte, 1)
	if err := s.Open.Add(c); err != nil {
		return nil, err
	}
	defer s.Open.End(c)
	if s.Renewing == nil {
		return s.ask(ctx, c, out, reply)
	}
	was := s.Renewing.Number()
	if result, err = s.ask(ctx, c, out, reply); !restart.IsLost(err) {
		return result, err
	}
	if err := s.Renewing.Renew(ctx, was, out.Header); err != nil {
		return nil, err
	}
	return s.ask(ctx, c, out, reply)
}

func (s *Session) ask(ctx context.Context, c *Call, out *upstream.Outgoing, reply func(response []byte)) ([]byte, error) {
	end, _ := ctx.Deadline()
	out.FirstByte = time.Until(end)
	out.Silence, out.Ours = out.FirstByte, true
	st, err := s.Conn.Send(ctx, out)
	switch {
	case err != nil:
		return nil, err
	case st != nil:
		return pipes.Answer(ctx, st, []byte(c.ID), reply)
	}
	select { // a server on a pipe sends the response with all its other messages
	case answer := <-c.More.Answers:
		return pipes.ResultIn(answer)
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// Operation returns what metrics count of the request c of s's client.
func (s *Session) Operation(c *Call, how metrics.Outcome, why metrics.Fault) metrics.Operation {
	return metrics.Operation{
		Client: s.ClientRevision, Server: s.ServerRevision, Method: c.Method, Tool: c.More.Tool,
		Outcome: how, Fault: why, Began: c.Began, Trace: c.More.Span.TraceID(),
	}
}

// Batch collects the responses to a batch.
type Batch struct {
	Emit func(array []byte) // called with the joined responses once all are there; may be nil

	mu      sync.Mutex
	answers [][]byte // by slot; nil until the response comes, and if none is owed
	left    int
}

// NewBatch returns a batch that is owed this many responses.
func NewBatch(slots int) *Batch {
	return &Batch{answers: make([][]byte, slots), left: slots}
}

// Put stores the response for one slot and owns its bytes. The response is nil if none is owed.
func (g *Batch) Put(slot int, answer []byte) {
	g.mu.Lock()
	g.answers[slot] = answer
	g.left--
	last := g.left == 0
	g.mu.Unlock()
	if !last || g.Emit == nil {
		return
	}
	if reply := g.Array(); reply != nil {
		g.Emit(reply)
	}
}

// Array returns the joined responses, or nil if there are none.
func (g *Batch) Array() []byte {
	g.mu.Lock()
	defer g.mu.Unlock()
	out := []byte{'['}
	for _, a := range g.answers {
		if a == nil {
			continue
		}
		out = append(wire.Comma(out), a...)
	}
	if len(out) == 1 {
		return nil
	}
	return append(out, ']')
}

// Repeatable holds what is needed to ask a question once more.
type Repeatable struct {
	Question []byte // as the client received it
	// Put returns false if no client gets the question. It calls lost if it turns out later that none does.
	Put func(question []byte, lost func()) bool
}

// Leaving is what to do when the client of a call has left for good: it cannot resume the stream any more. It is safe for
// concurrent use.
type Leaving struct {
	mu   sync.Mutex
	left bool
	do   []func()
}

// maxLeaving bounds what there is to do, which is kept until the call ends.
const maxLeaving = 64

// Then makes Left call do, which must not wait. It returns false if Left was called, or if there is too much to do. On nil it
// does nothing.
func (l *Leaving) Then(do func()) bool {
	if l == nil {
		return true
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.left || len(l.do) == maxLeaving {
		return false
	}
	l.do = append(l.do, do)
	return true
}

// Left says that the client has left for good. l may be nil.
func (l *Leaving) Left() {
	if l == nil {
		return
	}
	l.mu.Lock()
	do := l.do
	l.left, l.do = true, nil
	l.mu.Unlock()
	for _, each := range do {
		each()
	}
}
