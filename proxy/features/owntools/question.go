package owntools

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"strconv"
	"time"

	"github.com/tidwall/gjson"

	"github.com/dragoman-proxy/dragoman/proxy/protocol/mcp"
	"github.com/dragoman-proxy/dragoman/translate/wire"
)

// dragoman's own questions to the user are sent on the stream of a Request, as a server would. See
// https://modelcontextprotocol.io/specification/2025-11-25/client/elicitation.

// asking is the prefix of the ids of dragoman's questions, as JSON.
const asking = `"dragoman-ask-`

// userTime is how long a user may take to answer.
const userTime = 5 * time.Minute

// ErrNoAnswer says that the user did not answer. The caller may then use another way of
// confirmation.
var ErrNoAnswer = errors.New("the user did not answer")

// question asks questions for one Request.
type question struct {
	answers chan []byte
	yield   func([]byte) bool
	forget  func(key []byte) // drops the open question
}

// ask asks the user to agree to something. The error is ErrNoAnswer, or the cause of ctx's end.
func (q *question) ask(ctx context.Context, message string) (agreed bool, err error) {
	return q.elicit(ctx, append(wire.AppendQuoted([]byte(`{"message":`), message), `,"requestedSchema":{"type":"object","properties":{}}}`...))
}

// send asks the user to open a page. The errors are those of ask.
func (q *question) send(ctx context.Context, message, page string) (agreed bool, err error) {
	params := wire.AppendQuoted([]byte(`{"mode":"url","message":`), message)
	params = wire.AppendQuoted(append(params, `,"url":`...), page)
	params = wire.AppendQuoted(append(params, `,"elicitationId":`...), rand.Text())
	return q.elicit(ctx, append(params, '}'))
}

func (q *question) elicit(ctx context.Context, params []byte) (agreed bool, err error) {
	var b [12]byte
	rand.Read(b[:])
	id := asking + hex.EncodeToString(b[:]) + `"`
	key := wire.AppendIDKey(nil, []byte(id))
	defer q.forget(key)
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
			return false, ErrNoAnswer
		case <-timer.C:
			return false, ErrNoAnswer
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
			params = wire.AppendQuoted(append(params, `,"message":`...), newest)
		}
		q.yield(mcp.Notification(wire.Progress, append(params, '}')))
	}
}

// IsAnswer reports whether m is the answer to one of dragoman's own questions, which no server may get.
func IsAnswer(m *wire.Message) bool { return bytes.HasPrefix(m.ID(), []byte(asking)) }
