package exchange

import (
	"bytes"

	"go.uber.org/zap"

	"github.com/dragoman-proxy/dragoman/proxy/bridge"
	"github.com/dragoman-proxy/dragoman/proxy/mcp"
	"github.com/dragoman-proxy/dragoman/proxy/sealed"
	"github.com/dragoman-proxy/dragoman/proxy/server"
	"github.com/dragoman-proxy/dragoman/proxy/session"
	"github.com/dragoman-proxy/dragoman/proxy/sse"
	"github.com/dragoman-proxy/dragoman/proxy/upstream"
	"github.com/dragoman-proxy/dragoman/translate"
	"github.com/dragoman-proxy/dragoman/translate/wire"
)

// A multi-select form that was flattened for an older client (rule C19) cannot enforce the number
// of choices. If an answer has too few or too many, the server does not receive it: the user is
// asked once more. If the second answer does not fit either, the server receives a "decline".

// manyAgain is how many repeated questions may wait on one stream.
const manyAgain = 4

// mayRepeat keeps the question out, whose id at the server is id, if the number of choices in its
// answer will be checked.
func (x *Exchange) mayRepeat(out, id, note []byte) {
	if len(out) > bridge.MaxAskedAgain || !translate.Counts(note) {
		return
	}
	again := &session.Repeatable{Question: bytes.Clone(out), Put: x.putter()}
	x.key = wire.AppendIDKey(x.key[:0], id)
	x.Session.Asked.Change(x.key, func(c *session.Call) { c.More.Again = again })
}

// repeat asks the question of x.met once more. It returns false if that is impossible or was done
// before.
func (x *Exchange) repeat(note []byte) bool {
	c := x.Met
	if c == nil || c.More.Again == nil {
		return false
	}
	id := []byte(c.ID)
	next := session.NewCall(id, c.Method)
	next.As = x.Common.Now().Sealer.SealQuestion(id, note)
	question, err := bridge.Rephrase(c.More.Again.Question, next.As)
	if err != nil {
		return false
	}
	if !x.Session.Local {
		x.Session.Asked.Abandon(next)
	}
	if x.Session.Asked.Add(next) != nil {
		return false
	}
	if !c.More.Again.Put(question) {
		x.Session.Asked.End(next)
		return false
	}
	x.log().Debug("question asked again: the number of choices did not fit", zap.ByteString("id", id))
	return true
}

// isRepeated reports whether a request on the stream is a question that dragoman repeats: only
// dragoman can make such an id.
func (x *Exchange) isRepeated(m *wire.Message) bool {
	if !bytes.HasPrefix(m.ID(), []byte(sealed.QuestionPrefix)) {
		return false
	}
	_, _, ok := x.Common.Now().Sealer.OpenQuestion(m.ID())
	return ok
}

// putter returns a function that inserts a message into the stream that x reads, before the
// server's next message.
func (x *Exchange) putter() func([]byte) bool {
	if st, ok := x.Stream.(*server.Stream); ok {
		return func(m []byte) bool {
			if st.Over() {
				return false
			}
			st.Put(m, true)
			return true
		}
	}
	if x.injected == nil {
		x.injected = &injected{messages: make(chan []byte, manyAgain), over: x.Ctx.Done()}
		x.Stream = x.injected.on(x.Common, x.Stream)
	}
	return x.injected.put
}

// injected holds dragoman's own messages for a stream that another goroutine reads.
type injected struct {
	messages chan []byte
	over     <-chan struct{} // closed when the stream has ended
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

// on returns st with the messages of e inserted.
func (e *injected) on(common *Common, st upstream.Stream) upstream.Stream {
	return &injectedStream{Stream: st, common: common, extra: e, came: make(chan session.NextResult, 1)}
}

// injectedStream reads its stream in a goroutine, one event at a time, so that Next can also wait
// for injected messages.
type injectedStream struct {
	upstream.Stream
	common  *Common
	extra   *injected
	came    chan session.NextResult
	reading bool // a read is under way, or its result is still in came
}

func (s *injectedStream) Next() (sse.Event, error) {
	if !s.reading {
		s.reading = true
		s.common.Host.Spawn(func() {
			n := session.NextResult{Err: mcp.Fail(mcp.Panicked, "")}
			defer func() { s.came <- n }()
			n.Event, n.Err = s.Stream.Next()
		})
	}
	select {
	case n := <-s.came:
		s.reading = false
		return n.Event, n.Err
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
