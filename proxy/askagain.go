package proxy

import (
	"bytes"

	"go.uber.org/zap"

	"github.com/dragoman-proxy/dragoman/proxy/bridge"
	"github.com/dragoman-proxy/dragoman/proxy/mcp"
	"github.com/dragoman-proxy/dragoman/proxy/sealed"
	"github.com/dragoman-proxy/dragoman/proxy/server"
	"github.com/dragoman-proxy/dragoman/proxy/sse"
	"github.com/dragoman-proxy/dragoman/proxy/upstream"
	"github.com/dragoman-proxy/dragoman/translate"
	"github.com/dragoman-proxy/dragoman/translate/wire"
)

// A form that was flattened for an older client (rule C19) cannot hold the user to a
// number of choices. An answer with too few or too many is not for the server: the user
// is asked once more, and an answer that does not fit then either declines.

// manyAgain is how many wait on one stream to be asked again.
const manyAgain = 4

// again is what asking once more takes.
type repeatable struct {
	question []byte // as the client got it
	put      func(question []byte) bool
}

// mayRepeat keeps the question out, which the server gave the id, where its answer will
// be held against a number of choices.
func (x *exchange) mayRepeat(out, id, note []byte) {
	if len(out) > bridge.MaxAskedAgain || !translate.Counts(note) {
		return
	}
	again := &repeatable{question: bytes.Clone(out), put: x.putter()}
	x.key = wire.AppendIDKey(x.key[:0], id)
	x.s.asked.Change(x.key, func(c *call) { c.More.again = again })
}

// repeat asks x.met's question once more; false when it cannot be, or has been.
func (x *exchange) repeat(note []byte) bool {
	c := x.met
	if c == nil || c.More.again == nil {
		return false
	}
	id := []byte(c.ID)
	next := newCall(id, c.Method)
	next.As = x.srv.now().sealer.SealQuestion(id, note)
	question, err := bridge.Rephrase(c.More.again.question, next.As)
	if err != nil {
		return false
	}
	if !x.s.Local {
		x.s.asked.Abandon(next)
	}
	if x.s.asked.Add(next) != nil {
		return false
	}
	if !c.More.again.put(question) {
		x.s.asked.End(next)
		return false
	}
	x.log().Debug("question asked again: the number of choices did not fit", zap.ByteString("id", id))
	return true
}

// isRepeated reports whether a request that comes on a stream was put there to be asked
// again: only we can make its id.
func (x *exchange) isRepeated(m *wire.Message) bool {
	if !bytes.HasPrefix(m.ID(), []byte(sealed.QuestionPrefix)) {
		return false
	}
	_, _, ok := x.srv.now().sealer.OpenQuestion(m.ID())
	return ok
}

// putter puts a message on the stream that x reads, in front of what the server says
// next.
func (x *exchange) putter() func([]byte) bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	if st, ok := x.stream.(*server.Stream); ok {
		return func(m []byte) bool {
			if st.Over() {
				return false
			}
			st.Put(m, true)
			return true
		}
	}
	if x.injected == nil {
		x.injected = &injected{messages: make(chan []byte, manyAgain), over: x.ctx.Done()}
		x.stream = x.injected.on(x.srv, x.stream)
	}
	return x.injected.put
}

// extra are messages of ours for a stream that another goroutine writes.
type injected struct {
	messages chan []byte
	over     <-chan struct{} // closed when that stream has ended
}

func (e *injected) put(m []byte) bool {
	select {
	case <-e.over:
		return false
	default:
	}
	select {
	case e.messages <- m:
		return true
	default:
		return false
	}
}

// on is a stream with the messages of e among its own.
func (e *injected) on(srv *Server, st upstream.Stream) upstream.Stream {
	return &injectedStream{Stream: st, srv: srv, extra: e, came: make(chan nextResult, 1)}
}

// extraStream reads its stream in a goroutine, one event at a time, so as to wait for
// messages of ours too.
type injectedStream struct {
	upstream.Stream
	srv     *Server
	extra   *injected
	came    chan nextResult
	reading bool // an event was asked for, and has not been taken from came
}

func (s *injectedStream) Next() (sse.Event, error) {
	if !s.reading {
		s.reading = true
		s.srv.host.Spawn(func() {
			n := nextResult{err: mcp.Fail(mcp.Panicked, "")}
			defer func() { s.came <- n }()
			n.event, n.err = s.Stream.Next()
		})
	}
	select {
	case n := <-s.came:
		s.reading = false
		return n.event, n.err
	case m := <-s.extra.messages:
		return sse.Event{Data: m}, nil
	}
}

// Release releases the last event of the underlying stream, unless a read of the next event is already
// under way.
func (s *injectedStream) Release() {
	if st, ok := s.Stream.(upstream.Releaser); ok && !s.reading {
		st.Release()
	}
}
