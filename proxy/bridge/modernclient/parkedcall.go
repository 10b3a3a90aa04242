package modernclient

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"time"

	"github.com/tidwall/gjson"

	"github.com/dragoman-proxy/dragoman/proxy/bridge/outbox"
	"github.com/dragoman-proxy/dragoman/proxy/config"
	"github.com/dragoman-proxy/dragoman/proxy/observe"
	"github.com/dragoman-proxy/dragoman/proxy/ops/metrics"
	"github.com/dragoman-proxy/dragoman/proxy/pipes"
	"github.com/dragoman-proxy/dragoman/proxy/protocol/crossing"
	"github.com/dragoman-proxy/dragoman/proxy/protocol/mcp"
	"github.com/dragoman-proxy/dragoman/proxy/replicas/sealed"
	"github.com/dragoman-proxy/dragoman/proxy/transport/downstream"
	"github.com/dragoman-proxy/dragoman/translate/wire"
)

// join makes a parkedCall in m for the client's request, which is about to be sent on b as m.asking. The caller then calls start or stop.
func (s *parkedCalls) join(m *callMemory, box *outbox.Outbox, c caller, b *pooledSession) *parkedCall {
	d := &m.parked
	*d = parkedCall{of: s, who: c.who, first: c.q, from: c.from, b: b, reply: c.q, box: box, began: time.Now(), silence: d.silence}
	d.call = wire.View(m.asking.id)
	box.OnLeave(d)
	b.join(d, c.q.MayAsk())
	return d
}

// notify sends a notification to the waiting request, or keeps it for the next one.
func (d *parkedCall) notify(m *wire.Message, body []byte) {
	d.mu.Lock()
	defer d.mu.Unlock()
	to := d.reply
	if to == nil {
		to = d.first
	}
	if !d.b.interested(to, m, body) {
		return
	}
	l := outbox.Message{Body: bytes.Clone(body)}
	if d.box != nil {
		if l.Body = readdressed(l.Body, to); l.Body != nil {
			d.box.Put(l)
		}
		d.awaitServer(d.patience().Silence)
		return
	}
	if d.held.Resize(d.size()+len(l.Body)) != nil {
		d.of.Host.Report.Dropped("queue_full")
		return
	}
	d.kept.Put(l, m.Method)
	_ = d.held.Resize(d.size()) // it is not more
}

// Ask implements [crossing.Client]: it accepts questions of the server. The client is asked when no more of them come for a
// short time.
func (d *parkedCall) Ask(list []crossing.Question) {
	list = d.accept(d.b.tasks.route(d.b, list))
	d.b.refuse(list, tooManyAsked, d.headers())
	if d.reading.here != nil {
		d.reading.st.Interrupt() // the client's goroutine has more to wait for than the server now
	}
}

// headers returns the headers of the newest request.
func (d *parkedCall) headers() []mcp.Header {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.from
}

// accept adds as many questions as there is room for, and returns the others.
func (d *parkedCall) accept(list []crossing.Question) (others []crossing.Question) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.over {
		return list
	}
	room := min(d.asked.room(), len(list))
	for _, q := range list[:room] {
		d.add(q)
	}
	if d.box != nil && room > 0 {
		d.after(d.of.Host.Config().Bridge.Coalesce, d.askClient)
	}
	return list[room:]
}

// withdraw implements openCall.
func (d *parkedCall) withdraw(question string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	left := d.asked.without(question)
	if d.urls || len(left) == len(d.asked.open) {
		return // dragoman asks, or another call has the question
	}
	d.setAsked(left)
	switch {
	case d.box == nil: // the client has it, or would have it next: an answer to it does not count
		_ = d.held.Resize(d.size()) // it is less
	case len(left) == 0:
		d.halt()
		d.awaitServer(d.patience().Silence)
	}
}

// waits reports whether a request of the client waits for the response.
func (d *parkedCall) waits() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.box != nil && !d.over
}

// askFirst asks the client, before anything else, the questions that the server asked before the
// call. The server may answer the call before the client answers them.
func (d *parkedCall) askFirst(list []crossing.Question) {
	d.mu.Lock()
	for _, q := range list {
		d.add(q)
	}
	d.mu.Unlock()
	d.askClient()
}

// lacks notes that the client has not declared the capability for a question of the server. dragoman answers the question in
// the client's place, and the call continues. If it then fails, the client receives an error that names the capability. See
// https://modelcontextprotocol.io/specification/2026-07-28/basic/index#error-codes.
func (d *parkedCall) lacks(required []byte) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.missing = required
}

// hasProgressToken implements openCall.
func (d *parkedCall) hasProgressToken(token string) bool { return token == "p"+d.call }

// logLevel implements openCall.
func (d *parkedCall) logLevel() mcp.LogLevel { return d.first.LogLevel }

func (d *parkedCall) missingCapabilities() []byte {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.missing
}

// hasAsked reports whether the server has asked anything.
func (d *parkedCall) hasAsked() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.asked.count > 0
}

// add adds a question. d.mu must be held.
func (d *parkedCall) add(q crossing.Question) {
	d.asked.add(q)
	d.b.asks(1)
}

// setAsked sets the open questions. d.mu must be held.
func (d *parkedCall) setAsked(list []pendingQuestion) {
	d.b.asks(len(list) - len(d.asked.open))
	d.asked.open = list
}

// unasked returns the questions that may belong to another call and that were not sent to the
// client yet. d.mu must be held.
func (d *parkedCall) unasked() (list []crossing.Question) {
	if d.box == nil {
		return nil
	}
	for _, p := range d.asked.open {
		if p.Loose {
			list = append(list, p.Question)
		}
	}
	return list
}

// after calls do after the wait. It replaces an earlier timer. d.mu must be held.
func (d *parkedCall) after(wait time.Duration, do func()) {
	d.halt()
	d.timer = time.AfterFunc(wait, do)
}

// halt stops the timer, if one runs. d.mu must be held.
func (d *parkedCall) halt() {
	if d.timer != nil && !d.timer.Stop() {
		d.late = true
	}
	d.timer = nil
}

// askClient asks the client: the questions become the result of its waiting request. If the client cannot come back with answers, the server
// gets errors.
func (d *parkedCall) askClient() {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.over || d.box == nil || len(d.asked.open) == 0 {
		return
	}
	if silent := d.reply.Silent; silent != nil && silent.Load() && !d.urls {
		var list []crossing.Question
		for _, p := range d.asked.open {
			list = append(list, p.Question)
		}
		from := d.from
		d.setAsked(nil)
		d.halt()
		d.awaitServer(d.patience().Silence)
		d.of.Host.Spawn(func() { d.b.refuse(list, clientSilent, from) })
		return
	}
	if err := d.of.park(d); err != nil {
		f := d.of.Host.Report.Failed(err, d.reply.At(d.from)).WithID(d.reply.ID)
		d.box.Put(outbox.Message{Body: f.Body(), Last: true, Status: f.Status})
		d.box, d.reply = nil, nil
		d.of.Host.Spawn(func() { d.abandon("too many calls wait") })
		return
	}
	if d.round == 0 {
		d.digest = d.first.Digest()
	}
	d.round++
	d.inputs = nil
	result := d.asked.appendTo([]byte(`{"resultType":"input_required","inputRequests":{`))
	expires := time.Now().Add(d.of.Host.Config().Bridge.ParkTimeout)
	state := sealed.State{ID: d.id, Round: d.round, User: sha256.Sum256([]byte(d.first.User)), Digest: d.digest, Expires: expires}
	result = append(result, `},"requestState":`...)
	result = wire.AppendQuoted(result, d.of.Proxy.Sealer().SealState(d.of.Instance, state))
	result = append(result, `,"_meta":{"`+mcp.MetaPrefix+`serverInfo":`...)
	result = append(append(result, d.b.said.server...), `}}`...)
	d.before = d.reply.Counts.Span()
	d.before.Asked()
	body := mcp.AppendResult(nil, d.reply.ID, result)
	d.seen.Note(observe.Note{By: observe.Bridge, What: "input_required", To: observe.ToClient, Detail: "the server's questions are the result: the client answers them with a further request"})
	d.seen.Add(observe.Message{Edge: observe.ClientEdge, Direction: observe.ToClient, Copy: d.seen.Keep(body), Method: d.first.Method.String()})
	d.box.Put(outbox.Message{Body: body, Last: true, Status: 200})
	d.box, d.reply = nil, nil
	d.parked, d.ends = time.Now(), expires
	d.after(time.Until(expires), d.expire)
}

// askURLs asks the client to open the URLs in the server's error, with which the call has ended.
// See
// https://modelcontextprotocol.io/specification/2025-11-25/client/elicitation#url-elicitation-required-error.
func (d *parkedCall) askURLs(answer []byte) {
	if !d.first.Facts.Has(wire.ClientElicitationURL) {
		f := lacking(needsURLs)
		d.first.Counts.Settle(metrics.Refused)
		d.finish(outbox.Message{Body: f.WithID(nil).Body(), Status: f.Status})
		return
	}
	list := gjson.GetBytes(answer, "error.data.elicitations")
	d.expectURLs(list)
	d.mu.Lock()
	if d.over { // the client has already left
		d.mu.Unlock()
		d.forgetURLs()
		return
	}
	others, from := d.unasked(), d.from
	d.urls = true
	d.setAsked(nil) // nothing waits for the answers to earlier questions
	list.ForEach(func(_, e gjson.Result) bool {
		body := []byte(`{"method":"` + wire.ElicitationCreate.String() + `","params":{`)
		mcp.Members(e.Raw, func(name string, v gjson.Result) {
			if name == "elicitationId" {
				return
			}
			body = append(wire.AppendName(body, name), v.Raw...)
		})
		d.add(crossing.Question{Method: wire.ElicitationCreate, Body: append(body, `}}`...)})
		return d.asked.room() > 0 // the server names the others when the call is repeated
	})
	none := len(d.asked.open) == 0
	d.mu.Unlock()
	d.b.attribute(others, from)
	if none {
		d.forgetURLs()
		d.first.Counts.Settle(metrics.Errored)
		f := mcp.Fail(mcp.UpstreamRefused, "")
		f.Text = gjson.GetBytes(answer, "error.message").String()
		d.finish(outbox.Message{Body: f.Body(), Status: 200})
		return
	}
	d.askClient()
}

// expectURLs begins to wait for the URLs of list. The session is in use until forgetURLs: the server says in it when they have been opened.
func (d *parkedCall) expectURLs(list gjson.Result) {
	d.of.pool.retain(d.b)
	d.b.urls.expect(d, list)
}

// forgetURLs ends the wait for URLs, if there is one.
func (d *parkedCall) forgetURLs() {
	if d.b.urls.forget(d) {
		d.of.pool.release(d.b)
	}
}

// ClientLeft implements [outbox.Leaver]: it abandons the call if the request of the client that reads box was waiting
// for the response.
func (d *parkedCall) ClientLeft(box *outbox.Outbox) {
	d.mu.Lock()
	waits := d.box == box
	d.mu.Unlock()
	if waits {
		d.abandon("client disconnected")
	}
}

// expire ends a call whose client was asked and did not answer in time.
func (d *parkedCall) expire() {
	d.mu.Lock()
	asked, from := d.asked.open, d.from
	if d.box == nil {
		d.first.Counts.Settle(metrics.Left)
	}
	if d.box != nil || !d.endLocked() {
		d.mu.Unlock()
		return
	}
	running, urls := d.running(), d.urls
	d.mu.Unlock()
	d.forgetURLs()
	for _, p := range asked {
		if urls || !running && !p.Loose {
			continue
		}
		answer := mcp.AppendError(nil, p.ID, -32603, noResponse, nil)
		if p.Method == wire.ElicitationCreate {
			answer = mcp.AppendResult(nil, p.ID, `{"action":"cancel"}`)
		}
		d.b.deliverOrLog(&p.Question, answer, from)
	}
	if running {
		d.cancelAtServer(noResponse, from)
	}
}

const noResponse = "the client did not answer in time"

// errAbandoned ends the exchange of an abandoned call.
var errAbandoned = fmt.Errorf("the call was cancelled: %w", downstream.ErrClientLeft)

// abandon ends a call whose client has left. A request that still waits gets the error that
// dragoman is shutting down.
func (d *parkedCall) abandon(why string) {
	d.mu.Lock()
	box, reply, running, from, others := d.box, d.reply, d.running(), d.from, d.unasked()
	d.first.Counts.Settle(metrics.Left)
	if !d.endLocked() {
		d.mu.Unlock()
		return
	}
	d.mu.Unlock()
	d.b.attribute(others, from)
	d.forgetURLs()
	if box != nil {
		f := mcp.Fail(mcp.ShuttingDown, "").WithID(reply.ID)
		box.Put(outbox.Message{Body: f.Body(), Last: true, Status: f.Status})
	}
	if running {
		d.cancelAtServer(why, from)
	}
}

// running reports whether the server is processing the call. d.mu must be held.
func (d *parkedCall) running() bool { return d.cut != nil && !d.urls && d.answer == nil }

// cancelAtServer cancels the call at the server, and stops reading its messages.
func (d *parkedCall) cancelAtServer(why string, from []mcp.Header) {
	if !d.own && !d.x.isTask() {
		d.b.s.Cancel(d.call, from, why)
	}
	d.cut(errAbandoned)
}

// stop ends a call that was not sent. Its questions go to another call.
func (d *parkedCall) stop() {
	d.mu.Lock()
	var others []crossing.Question
	for _, p := range d.asked.open {
		others = append(others, p.Question)
	}
	ended, from := d.endLocked(), d.from
	d.mu.Unlock()
	if ended {
		d.b.attribute(others, from)
	}
}

// endLocked ends the call, and returns false if it has ended before. d.mu must be held.
func (d *parkedCall) endLocked() bool {
	if d.over {
		return false
	}
	d.over = true
	d.setAsked(nil)
	d.halt()
	d.of.drop(d)
	d.held.Close()
	if d.owes {
		d.first.Counts.Release()
	}
	return true
}

// countLater postpones the counting of a call that will be repeated after the user has opened URLs.
func (d *parkedCall) countLater() {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.over {
		d.first.Counts.Settle(metrics.Left)
		return
	}
	d.first.Counts.Hold()
	d.owes = true
}

// patience returns how long the server may be silent about the call.
func (d *parkedCall) patience() config.TimeLimit { return d.of.Proxy.Silence(d.first.Method) }

// awaitServer cancels the call if the server sends nothing about it for the given time while the
// client waits for the response. The time that the client needs for answers does not count. d.mu
// must be held.
func (d *parkedCall) awaitServer(limit time.Duration) {
	if limit <= 0 || d.over || d.box == nil || len(d.asked.open) > 0 {
		return
	}
	d.halt()
	d.limit = limit
	if d.silence == nil || d.late {
		d.silence = time.AfterFunc(limit, d.silent)
	} else {
		d.silence.Reset(limit)
	}
	d.timer = d.silence
}

// silent cancels the call, whose limit for the server's silence is over.
func (d *parkedCall) silent() {
	d.mu.Lock()
	defer d.mu.Unlock()
	limit, left := d.limit, d.b.mayWait(d.limit)
	switch {
	case d.over || d.box == nil || len(d.asked.open) > 0 || d.cut == nil:
	case left > 0 && time.Since(d.began) < d.of.Host.Config().Bridge.ParkTimeout:
		d.awaitServer(left)
		d.limit = limit
	default:
		d.cut(pipes.SilentFor(d.limit, false))
	}
}

// endFor ends the call if the client's request that reads box waits for the response. Otherwise it returns false.
func (d *parkedCall) endFor(box *outbox.Outbox) bool {
	d.mu.Lock()
	others, from := d.unasked(), d.from
	ended := d.box == box && d.endLocked()
	d.mu.Unlock()
	if ended {
		d.b.attribute(others, from)
	}
	return ended
}

// finish ends the call with the response l, with the id of the waiting request. If no request
// waits, the response is kept for the next one.
func (d *parkedCall) finish(l outbox.Message) {
	d.mu.Lock()
	box, reply, from, others := d.box, d.reply, d.from, d.unasked()
	if box == nil && !d.over {
		d.answer = &l
		_ = d.held.Resize(d.size()) // an answer is not lost: if there is no room, the number of parked calls bounds it
		d.mu.Unlock()
		return
	}
	ended := d.endLocked()
	d.mu.Unlock()
	if !ended {
		return
	}
	d.b.attribute(others, from)
	if !bytes.Equal(l.For, reply.ID) && !d.of.Host.Report.Contained(func() { l.Body = under(l.Body, reply.ID) }) {
		f := mcp.Fail(mcp.Panicked, "").WithID(reply.ID)
		l = outbox.Message{Body: f.Body(), Status: f.Status}
	}
	l.Last = true
	box.Put(l)
}

// close abandons all calls.
func (s *parkedCalls) close() {
	for _, d := range s.list() {
		d.abandon("dragoman is shutting down")
	}
}
