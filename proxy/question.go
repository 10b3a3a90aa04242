package proxy

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"strconv"
	"time"

	"github.com/tidwall/gjson"

	"github.com/dragoman-proxy/dragoman/proxy/mcp"
	"github.com/dragoman-proxy/dragoman/translate/wire"
)

// dragoman's own questions to the user are sent on the stream of an ownCall, as a server would. See
// https://modelcontextprotocol.io/specification/2025-11-25/client/elicitation.

// asking is the prefix of the ids of dragoman's questions, as JSON.
const asking = `"dragoman-ask-`

// userTime is how long a user may take to answer.
const userTime = 5 * time.Minute

// errNoAnswer says that the user did not answer. The caller may then use another way of
// confirmation.
var errNoAnswer = errors.New("the user did not answer")

// canAsk reports whether x's client can ask its user.
func (x *exchange) canAsk() bool {
	return x.s.ClientRevision.Elicitation && x.s.Facts.Has(wire.ClientElicitationForm)
}

// canSend reports whether x's client can show its user a page, and what the user does there affects
// no other user.
func (x *exchange) canSend() bool {
	return x.srv.personal.Load() && x.s.ClientRevision.Elicitation && x.s.Facts.Has(wire.ClientElicitationURL)
}

// question asks questions for one ownCall.
type question struct {
	answers chan []byte
	yield   func([]byte) bool
	asked   *calls // holds the open question
}

// ask asks the user to agree to something. The error is errNoAnswer, or the cause of ctx's end.
func (q *question) ask(ctx context.Context, message string) (agreed bool, err error) {
	return q.elicit(ctx, append(mcp.AppendString([]byte(`{"message":`), message), `,"requestedSchema":{"type":"object","properties":{}}}`...))
}

// send asks the user to open a page. The errors are those of ask.
func (q *question) send(ctx context.Context, message, page string) (agreed bool, err error) {
	params := mcp.AppendString([]byte(`{"mode":"url","message":`), message)
	params = mcp.AppendString(append(params, `,"url":`...), page)
	params = mcp.AppendString(append(params, `,"elicitationId":`...), rand.Text())
	return q.elicit(ctx, append(params, '}'))
}

func (q *question) elicit(ctx context.Context, params []byte) (agreed bool, err error) {
	var b [12]byte
	rand.Read(b[:])
	id := asking + hex.EncodeToString(b[:]) + `"`
	key := wire.AppendIDKey(nil, []byte(id))
	defer q.asked.Take(key)
	if !q.yield(mcp.Request(id, wire.ElicitationCreate, params)) {
		return false, context.Cause(ctx)
	}
	timer := time.NewTimer(userTime)
	defer timer.Stop()
	for {
		select {
		case answer := <-q.answers:
			if !bytes.Equal(wire.AppendIDKey(nil, []byte(gjson.GetBytes(answer, "id").Raw)), key) {
				continue // the late answer to an earlier question
			}
			switch gjson.GetBytes(answer, "result.action").Str {
			case "accept":
				return true, nil
			case "decline", "cancel":
				return false, nil
			}
			return false, errNoAnswer
		case <-timer.C:
			return false, errNoAnswer
		case <-ctx.Done():
			return false, context.Cause(ctx)
		}
	}
}

// progressToken returns a clone of the progressToken in the params of a request, or nil.
func progressToken(params []byte) []byte {
	t := gjson.Get(wire.View(params), "_meta.progressToken")
	if t.Type != gjson.String && t.Type != gjson.Number {
		return nil
	}
	return []byte(t.Raw)
}

// progress returns a function that sends progress notifications for the request. See
// https://modelcontextprotocol.io/specification/2025-11-25/basic/utilities/progress.
func (q *question) progress(token []byte) func(parts int, newest string) {
	return func(parts int, newest string) {
		params := append(append([]byte(`{"progressToken":`), token...), `,"progress":`...)
		params = strconv.AppendInt(params, int64(parts), 10)
		if newest != "" {
			params = mcp.AppendString(append(params, `,"message":`...), newest)
		}
		q.yield(mcp.Notification(wire.Progress, append(params, '}')))
	}
}

// receiveAnswer receives the client's answer to one of dragoman's own questions, and reports
// whether m is one. Such answers never go to the server, also when nothing waits for them any more.
func (x *exchange) receiveAnswer(m *wire.Message) bool {
	if x.srv.now().own == nil || !bytes.HasPrefix(m.ID(), []byte(asking)) {
		return false
	}
	x.key = wire.AppendIDKey(x.key[:0], m.ID())
	if c := x.s.asked.Take(x.key); c != nil && c.More.answers != nil {
		c.More.answers <- bytes.Clone(m.Raw) // the buffer has room, as only one question is open
	} else {
		x.srv.host.Report.UnknownResponse(x.s.unknown.CompareAndSwap(false, true), x.requestInfo(), m)
	}
	return true
}
