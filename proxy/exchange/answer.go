package exchange

import (
	"bytes"
	"io"

	"github.com/dragoman-proxy/dragoman/proxy/bridge"
	"github.com/dragoman-proxy/dragoman/proxy/downstream"
	"github.com/dragoman-proxy/dragoman/proxy/mcp"
	"github.com/dragoman-proxy/dragoman/proxy/restart"
	"github.com/dragoman-proxy/dragoman/proxy/server"
	"github.com/dragoman-proxy/dragoman/proxy/sse"
	"github.com/dragoman-proxy/dragoman/translate/wire"
)

// reading is the state of Answer.
type reading struct {
	to      mcp.Peer
	asker   bridge.Client // to, if it is the client of a crossing; nil for others
	open    bool          // to gets messages
	last    sse.Event     // what Answer returns
	failure error
	broken  error // how the stream has ended; nil if it has not, or if another one was opened
}

// Answer sends the client the server's messages until the response, which it returns; it is valid until the next call.
// The error is io.EOF if no response is owed, or if the client gets no more messages. A panic becomes an error. After the
// error for one message, or for a server that restarts, Answer may be called again.
func (x *Exchange) Answer(client mcp.Peer) (response sse.Event, err error) {
	defer func() {
		if p := recover(); p != nil {
			x.Common.Host.Report.Panicked(p)
			response, err = x.end(sse.Event{}, mcp.Fail(mcp.Panicked, ""))
		}
	}()
	if x.answered {
		return sse.Event{}, io.EOF
	}
	x.begin(client)
	for {
		if x.broken == nil {
			x.Clock.Start()
			x.Stream.Events(x.receive)
		}
		if x.broken == nil {
			return x.last, x.failure
		}
		if err := x.mend(); err != nil {
			return x.end(sse.Event{}, err)
		}
	}
}

// Cross is Answer for the client of a crossing. An error of Send ends it, and is returned. The error is bridge.ErrAsked if the
// response requires that the user opens URLs. After sse.ErrInterrupted, Cross may be called again.
func (x *Exchange) Cross(client bridge.Client) (response sse.Event, err error) {
	x.asker = client
	return x.Answer(client)
}

func (x *Exchange) begin(client mcp.Peer) {
	x.injected.lock()
	defer x.injected.unlock()
	x.to, x.open, x.last, x.failure = client, true, sse.Event{}, nil
	x.injected.set(true)
}

// end makes Answer return this. The client is sent no more messages.
func (x *Exchange) end(last sse.Event, err error) (sse.Event, error) {
	x.injected.lock()
	defer x.injected.unlock()
	x.stop(last, err)
	return last, err
}

// stop makes Answer return this. It returns false, as the stream is not read on.
func (x *Exchange) stop(last sse.Event, err error) bool {
	x.open, x.last, x.failure = false, last, err
	x.injected.set(false)
	return false
}

// event receives one event of the server, or the error with which its stream has ended. It returns false if Answer does not
// read on.
func (x *Exchange) event(e sse.Event, err error) bool {
	x.injected.lock()
	defer func() { x.injected.unlock() }() // it may be another one by then
	if !x.open {
		return false
	}
	x.Clock.Lap(&x.Clock.Upstream)
	e, err, ok := server.Replaced(e, err, x.Common.Host)
	if err != nil {
		x.broken = err
		return false
	}
	if ok && !x.messages(e) {
		return false
	}
	x.Clock.Start()
	return true
}

// messages sends the client the messages of an event. An event without a message goes on unchanged, if client and server have
// the same revision.
func (x *Exchange) messages(e sse.Event) bool {
	if cap(x.buf) > maxPooled {
		x.buf = nil // the previous message was large
	}
	x.Resumes = 0
	x.eventID = sse.Event{ID: e.ID, HasID: e.HasID, Retry: e.Retry}
	if e.HasID {
		x.ResumeAt = append(x.ResumeAt[:0], e.ID...)
	}
	if e.Retry > 0 {
		x.Retry = e.Retry
	}
	x.rest, x.at = x.rest[:0], 0
	switch {
	case len(bytes.TrimSpace(e.Data)) == 0:
		e.Data = e.Data[:0]
		return !x.Session.Down.Identity() || x.send(e)
	case wire.IsArray(e.Data):
		var err error
		if x.rest, err = wire.AppendElements(x.rest, e.Data, x.Common.Now().Config.Limits.Batch); err != nil {
			x.bad = x.Common.Host.Report.Malformed(err, e.Data, x.From)
			x.rest = x.rest[:0]
		}
	default:
		x.rest = append(x.rest, e.Data)
	}
	for x.at < len(x.rest) {
		x.at++
		if !x.message(x.rest[x.at-1]) {
			return false
		}
	}
	if x.answered {
		return x.stop(sse.Event{}, io.EOF)
	}
	return true
}

// message translates one message of the server. The response is for Answer, all others go to the client.
func (x *Exchange) message(raw []byte) bool {
	out, ok := x.FromServer(raw)
	e := sse.Event{Data: out}
	if x.at == len(x.rest) { // the id goes with the last message of the event
		e.ID, e.HasID, e.Retry = x.eventID.ID, x.eventID.HasID, x.eventID.Retry
	}
	switch {
	case !ok:
		return x.asked()
	case x.Final && (x.at == len(x.rest) || x.asker != nil):
		return x.stop(e, nil)
	}
	return x.send(e)
}

// asked passes on what the message that the client does not get has left for it.
func (x *Exchange) asked() bool {
	if x.asker == nil || !x.Crossing.Pending() {
		return true
	}
	if list := x.Crossing.TakeQuestions(); len(list) > 0 {
		x.asker.Ask(list)
	}
	switch own := x.Crossing.Response(); {
	case own != nil:
		return x.stop(sse.Event{Data: own}, nil)
	case x.Final:
		return x.stop(sse.Event{}, bridge.ErrAsked)
	}
	return true
}

// send sends the client one event.
func (x *Exchange) send(e sse.Event) bool {
	err := x.to.Send(e)
	switch {
	case err == nil:
		return true
	case x.asker != nil:
		return x.stop(sse.Event{}, err)
	case x.Stop != nil:
		x.Stop(downstream.ErrClientLeft)
	}
	return x.stop(sse.Event{}, io.EOF)
}

// mend opens another stream in the place of the broken one: it resumes it, or sends the request again. If neither is
// possible, mend returns the error of the request.
func (x *Exchange) mend() (err error) {
	broken := x.broken
	x.broken = nil
	c := x.Session.Renewing
	switch lost := c != nil && x.Call != nil && !x.resent && x.Outgoing.Body != nil && restart.IsLost(broken); {
	case !lost:
		err = x.ended(broken)
	case !x.Crossing.StopsBeingAlone():
		return x.sendAgain(c)
	default:
		err = sse.ErrInterrupted
	}
	if err == sse.ErrInterrupted && broken != err {
		x.broken = broken // the next Answer mends it
	}
	return err
}
