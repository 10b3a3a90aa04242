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

// Questions of our own to the user of a client, which an errand asks on its stream
// as a server would. See
// https://modelcontextprotocol.io/specification/2025-11-25/client/elicitation.

// asking is how the ids of our questions begin, as JSON.
const asking = `"dragoman-ask-`

// userTime is how long a user may take to answer.
const userTime = 5 * time.Minute

// errNoAnswer says that the user was asked in vain: then there are other ways.
var errNoAnswer = errors.New("the user did not answer")

// canAsk reports whether the user of x's client can be asked.
func (x *exchange) canAsk() bool {
	return x.s.ClientRevision.Elicitation && x.s.Facts.Has(wire.ClientElicitationForm)
}

// canSend reports whether the user of x's client can be sent to a page where they act for
// themselves alone.
func (x *exchange) canSend() bool {
	return x.srv.personal.Load() && x.s.ClientRevision.Elicitation && x.s.Facts.Has(wire.ClientElicitationURL)
}

// question is one that waits for its answer.
type question struct {
	answers chan []byte
	yield   func([]byte) bool
	asked   *calls // where it stands until it is answered
}

// ask asks the user to agree to something. The error is errNoAnswer, or ctx's.
func (q *question) ask(ctx context.Context, message string) (agreed bool, err error) {
	return q.elicit(ctx, append(mcp.AppendString([]byte(`{"message":`), message), `,"requestedSchema":{"type":"object","properties":{}}}`...))
}

// send sends the user to a page. The error is that of ask.
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
				continue // to the question before, whose time was over
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

// progressToken is the one that the params of a request give, a clone; nil for none.
func progressToken(params []byte) []byte {
	t := gjson.Get(wire.View(params), "_meta.progressToken")
	if t.Type != gjson.String && t.Type != gjson.Number {
		return nil
	}
	return []byte(t.Raw)
}

// progress tells the client how far its request is. See
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

// hear takes the client's answer to a question of ours. None of those is for the
// server, also when no caller waits for it any more.
func (x *exchange) receiveAnswer(m *wire.Message) bool {
	if x.srv.now().own == nil || !bytes.HasPrefix(m.ID(), []byte(asking)) {
		return false
	}
	x.key = wire.AppendIDKey(x.key[:0], m.ID())
	if c := x.s.asked.Take(x.key); c != nil && c.More.answers != nil {
		c.More.answers <- bytes.Clone(m.Raw) // there is room for the one that there is
	} else {
		x.srv.host.Report.UnknownResponse(x.s.unknown.CompareAndSwap(false, true), x.requestInfo(), m)
	}
	return true
}
