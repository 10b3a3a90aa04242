package exchange

import (
	"bytes"
	"context"
	"strings"

	"go.uber.org/zap"

	"github.com/dragoman-proxy/dragoman/proxy/pipes"
	"github.com/dragoman-proxy/dragoman/proxy/protocol/crossing"
	"github.com/dragoman-proxy/dragoman/proxy/protocol/mcp"
	"github.com/dragoman-proxy/dragoman/proxy/replicas/sealed"
	"github.com/dragoman-proxy/dragoman/proxy/session"
	"github.com/dragoman-proxy/dragoman/proxy/transport/upstream"
	"github.com/dragoman-proxy/dragoman/translate"
	"github.com/dragoman-proxy/dragoman/translate/wire"
)

// A multi-select form that was flattened for an older client (rule C19) cannot enforce the number
// of choices. If an answer has too few or too many, the server does not receive it: the user is
// asked once more. If the second answer does not fit either, or if the client can no longer get the
// second question, the server receives a "decline". A client that has left its call may resume the
// stream; the question waits there as long as that is possible. See "Resumability and Redelivery",
// https://modelcontextprotocol.io/specification/2025-06-18/basic/transports#resumability-and-redelivery.

// mayRepeat keeps the question out, whose id at the server is id, if the number of choices in its
// answer will be checked.
func (x *Exchange) mayRepeat(out, id, note []byte) {
	if len(out) > crossing.MaxAskedAgain || !translate.Counts(note) {
		return
	}
	again := &session.Repeatable{Question: bytes.Clone(out), Put: x.putter()}
	x.key = wire.AppendIDKey(x.key[:0], id)
	x.Session.Asked.Change(x.key, func(c *session.Call) { c.More.Again = again })
}

// repeat asks the question of x.met once more. It returns false if that is impossible or was done
// before: then the server gets decline. It gets that later if the client does not get the question.
func (x *Exchange) repeat(note, decline []byte) bool {
	c := x.Met
	if c == nil || c.More.Again == nil {
		return false
	}
	id := []byte(c.ID)
	next := session.NewCall(id, c.Method)
	next.As = x.sealedID(id, note, c.Method)
	question, err := crossing.Rephrase(c.More.Again.Question, next.As)
	if err != nil {
		return false
	}
	if !x.Session.Local {
		x.Session.Asked.Abandon(next)
	}
	if x.Session.Asked.Add(next) != nil {
		return false
	}
	undelivered := x.declines(next, decline)
	if !c.More.Again.Put(question, undelivered) {
		return !x.Session.Asked.End(next) // else it is declined already
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

// declines returns a function that answers the server's question with decline unless the client has answered it.
func (x *Exchange) declines(question *session.Call, decline []byte) func() {
	s, within, host, at := x.Session, x.within, x.Common.Host, x.At()
	answer := &upstream.Outgoing{Body: bytes.Clone(decline)}
	for _, h := range x.From { // whose values belong to the client's request
		answer.Header = append(answer.Header, mcp.Header{Name: strings.Clone(h.Name), Value: strings.Clone(h.Value)})
	}
	at.Header = answer.Header
	return func() {
		if !s.Asked.End(question) {
			return
		}
		host.Spawn(func() {
			ctx, cancel := context.WithTimeout(context.Background(), pipes.NoticeTimeout)
			defer cancel()
			if err := s.Reply(ctx, within, answer); err != nil {
				host.Report.Undelivered(err, at)
			}
		})
	}
}

// putter returns a function that sends a message to the client of x: on a pipe with those of the server, also when the client
// resumes the stream, and else at once. It returns false if no client gets the message. If it turns out later that none does,
// it calls lost.
func (x *Exchange) putter() func(m []byte, lost func()) bool {
	left := x.leaving()
	if st := x.lane; st != nil {
		return func(m []byte, lost func()) bool {
			if st.Over() || !left.Then(lost) {
				return false
			}
			st.Put(m, true)
			return true
		}
	}
	if x.injected == nil {
		if x.Stream != nil {
			x.Stream.Park(nil) // nothing could be sent while it is parked
		}
		x.injected = &injected{spawn: x.Common.Host.Spawn, open: func() bool { return x.to != nil }, send: x.insert}
		if x.to != nil { // event unlocks it
			x.injected.lock()
		}
	}
	in := x.injected
	return func(m []byte, lost func()) bool { return left.Then(lost) && in.put(m, lost) }
}

// leaving returns what is to be done when the client has left the call of x for good.
func (x *Exchange) leaving() *session.Leaving {
	if x.Call == nil {
		return nil
	}
	if x.Call.More.Leaving == nil {
		x.Call.More.Leaving = new(session.Leaving)
	}
	return x.Call.More.Leaving
}
