package exchange

import (
	"bytes"

	"go.uber.org/zap"

	"github.com/dragoman-proxy/dragoman/proxy/bridge"
	"github.com/dragoman-proxy/dragoman/proxy/sealed"
	"github.com/dragoman-proxy/dragoman/proxy/session"
	"github.com/dragoman-proxy/dragoman/translate"
	"github.com/dragoman-proxy/dragoman/translate/wire"
)

// A multi-select form that was flattened for an older client (rule C19) cannot enforce the number
// of choices. If an answer has too few or too many, the server does not receive it: the user is
// asked once more. If the second answer does not fit either, the server receives a "decline".

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

// putter returns a function that sends a message to the client of x: on a pipe with those of the server, also when the client
// resumes the stream, and else at once. It returns false if no client gets the message.
func (x *Exchange) putter() func([]byte) bool {
	if st := x.lane; st != nil {
		return func(m []byte) bool {
			if st.Over() {
				return false
			}
			st.Put(m, true)
			return true
		}
	}
	if x.injected == nil {
		x.injected = &injected{spawn: x.Common.Host.Spawn, open: func() bool { return x.to != nil }, send: x.insert}
		if x.to != nil { // event unlocks it
			x.injected.lock()
		}
	}
	return x.injected.put
}
