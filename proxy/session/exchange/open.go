package exchange

import (
	"bytes"

	"github.com/tidwall/gjson"
	"go.uber.org/zap"

	"github.com/dragoman-proxy/dragoman/proxy/bridge/stateless"
	"github.com/dragoman-proxy/dragoman/proxy/bytes/envelope"
	"github.com/dragoman-proxy/dragoman/proxy/bytes/sse"
	"github.com/dragoman-proxy/dragoman/proxy/pipes"
	"github.com/dragoman-proxy/dragoman/proxy/protocol/mcp"
	"github.com/dragoman-proxy/dragoman/proxy/session"
	"github.com/dragoman-proxy/dragoman/proxy/transport/upstream"
	"github.com/dragoman-proxy/dragoman/translate/wire"
)

// admit checks a client's request and adds it to the open ones as x.call.
func (x *Exchange) admit(m *wire.Message) error {
	id := m.ID()
	switch {
	case x.Crossing != nil:
		id = x.Crossing.Sent(id)
	case m.Method == wire.Initialize:
		return mcp.Fail(mcp.InitializedTwice, "")
	case stateless.IsModern(m):
		return mcp.Uninitialized(mcp.ModernRefused)
	}
	c := session.NewCallAt(id, m.Method, x.Clock.Now())
	c.Stop, c.More.Here = x.Stop, x.OwnCall != nil
	c.More.Group, c.More.Slot, c.More.Span, c.More.Tool = x.Batch, x.Slot, x.Span, x.toolOf(m)
	c.More.Seen = x.Seen
	if err := x.Session.Open.Add(c); err != nil {
		return err
	}
	x.Call = c
	return nil
}

// reunite finds the request of a response and sets the response's method and note. If there is
// none, it returns false, and the method is guessed. The response may then be one that another process or the client knows.
func (x *Exchange) reunite(asked *session.Calls) bool {
	m := &x.Msg
	x.key = wire.AppendIDKey(x.key[:0], m.ID())
	c := asked.Take(x.key)
	x.Met = c
	if c == nil {
		m.Classify()
		return false
	}
	m.Method, m.Note = c.Method, c.Note
	return true
}

// firstUnknown reports whether no response of the session was to a request that is not open.
func (x *Exchange) firstUnknown() bool { return x.Session.Unknown.CompareAndSwap(false, true) }

// asksByOther reports whether the client knows the question with the id of m by another id, so that m answers another question.
func (x *Exchange) asksByOther(m *wire.Message) bool {
	x.key = wire.AppendIDKey(x.key[:0], m.ID())
	c := x.Session.Asked.Newest(x.key)
	return c != nil && c.As != nil
}

// isAnswer reports whether m is the response to x's own request, and ends the request.
func (x *Exchange) isAnswer(m *wire.Message) bool {
	if x.Call == nil || x.answered {
		return false
	}
	x.key = wire.AppendIDKey(x.key[:0], m.ID())
	if string(x.key) != x.Call.Key {
		return false
	}
	x.answered, x.Final = true, true
	x.Session.Open.End(x.Call)
	return true
}

// isTextOfCall reports whether the id of a response is the text of that of x's own request, and no open request has that text as
// its id.
func (x *Exchange) isTextOfCall(m *wire.Message) bool {
	if x.Call == nil || x.answered || !m.Kind.Response() {
		return false
	}
	if id := m.ID(); len(id) == 0 || id[0] != '"' || x.Call.ID[0] == '"' || !pipes.IsAnswer(id, []byte(x.Call.ID)) {
		return false
	}
	x.key = wire.AppendIDKey(x.key[:0], m.ID())
	return !x.Session.Open.Knows(x.key)
}

// isBrokenAnswer reports whether a text that is not a message was meant as the response to x's own request, although its stream
// may go on.
func (x *Exchange) isBrokenAnswer(raw []byte) bool {
	if x.Call == nil || x.answered || x.Stream == nil || x.Stream.Whole() {
		return false
	}
	id, meant := envelope.BrokenAnswer(raw)
	return meant && (id == nil || pipes.IsAnswer(id, []byte(x.Call.ID)))
}

// admitAsked adds a request of the server to the open ones. On a stream that can be replayed, the
// same request may come again; on a pipe, two requests with one id are an error.
func (x *Exchange) admitAsked(m *wire.Message) (*session.Call, error) {
	c := session.NewCall(m.ID(), m.Method)
	c.More.Span = x.questionSpan(m, c.Began)
	c.More.Seen, x.question = x.observeQuestion(), c
	c.More.Of = x.Call
	if !x.Session.Asked.Unique {
		x.Session.Asked.Take([]byte(c.Key))
	}
	if x.OwnCall != nil {
		c.More.Answers = x.OwnCall.Answers
	} else if !x.Session.Local {
		x.Session.Asked.Abandon(c) // another process may receive the answer
	}
	return c, x.Session.Asked.Add(c)
}

// withdrawAsked tells the client of x, whose call was cancelled by it or by dragoman, that the questions of the call are over: what the
// server says of them comes on a stream that is not read any more.
func (x *Exchange) withdrawAsked(client mcp.Peer) {
	for _, c := range x.Session.Asked.List() {
		switch {
		case c.More.Of != x.Call || !x.Session.Asked.CancelThis(c):
		case x.asker != nil:
			x.Crossing.Withdraw(c.ID)
		case c.As != nil:
			_ = client.Send(sse.Event{Data: mcp.Cancelled(string(c.As), "the call is over")})
		default:
			_ = client.Send(sse.Event{Data: mcp.Cancelled(c.ID, "the call is over")})
		}
	}
}

// askedStill makes a question an open one again, because its answer has not reached the server: the client may send it once more.
func (x *Exchange) askedStill(c *session.Call) {
	if x.Session.Again.Load() {
		return // the server that has asked is no more
	}
	again := session.NewCallAt([]byte(c.ID), c.Method, c.Began)
	again.Note, again.As, again.More.Again = c.Note, c.As, c.More.Again
	if !x.Session.Local {
		x.Session.Asked.Abandon(again)
	}
	_ = x.Session.Asked.Add(again) // else the server has asked it again meanwhile
}

func (x *Exchange) forgetAsked(id []byte) {
	x.key = wire.AppendIDKey(x.key[:0], id)
	x.Session.Asked.Take(x.key)
}

// keepAsked stores the note for translating the client's answer.
func (x *Exchange) keepAsked(id, note []byte) {
	x.key = wire.AppendIDKey(x.key[:0], id)
	if !x.Session.Asked.Annotate(x.key, note) {
		x.log().Warn("cannot keep the note of a translated question: its answer may not be translated back", zap.Int("bytes", len(note)))
	}
}

// reply sends the server a response that does not come from the client.
func (x *Exchange) reply(message []byte) {
	if x.OwnCall != nil { // dragoman asked
		x.OwnCall.Answers <- bytes.Clone(message)
		return
	}
	x.replyToServer(message)
}

// replyToServer is reply for a request that is the server's.
func (x *Exchange) replyToServer(message []byte) {
	if err := x.Session.Reply(x.Ctx, x.within, &upstream.Outgoing{Body: message, Header: x.From}); err != nil {
		x.Common.Host.Report.Undelivered(err, x.At())
	}
}

// AppendCancelled appends the key of the request that the notification m cancels. It appends nothing if there is none, as m
// is another notification.
func AppendCancelled(dst []byte, m *wire.Message) []byte {
	if m.Method != wire.Cancelled {
		return dst
	}
	id := gjson.Get(wire.View(m.Params()), "requestId")
	if id.Type != gjson.String && id.Type != gjson.Number {
		return dst
	}
	return wire.AppendIDKey(dst, []byte(id.Raw))
}
