package modernclient

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"slices"
	"strings"
	"time"

	"github.com/tidwall/gjson"

	"github.com/dragoman-proxy/dragoman/proxy/bridge/outbox"
	"github.com/dragoman-proxy/dragoman/proxy/bridge/stateless"
	"github.com/dragoman-proxy/dragoman/proxy/observe"
	"github.com/dragoman-proxy/dragoman/proxy/ops/metrics"
	"github.com/dragoman-proxy/dragoman/proxy/ops/report"
	"github.com/dragoman-proxy/dragoman/proxy/protocol/mcp"
	"github.com/dragoman-proxy/dragoman/proxy/replicas/sealed"
	"github.com/dragoman-proxy/dragoman/translate/wire"
)

// Continues reports whether q goes on with what the client has begun through a session with a server with a handshake: it has answers
// for a call that waits, here or in another replica, or is about a task of such a session. Only the bridge knows these, whatever the
// server serves by now.
func (br *Bridge) Continues(q *stateless.Request, who string) bool {
	switch {
	case isTaskRequest(q.Method):
		return br.tasks.find(who, gjson.ParseBytes(q.Target).String()) != nil
	case q.State == nil:
		return false
	}
	_, instance, ok := br.proxy.Sealer().OpenState(gjson.ParseBytes(q.State).String())
	return ok && (instance == br.parked.Instance || br.proxy.HasReplicas()) // else it may be the server that is a dragoman with our key
}

// heldBy returns the other process that holds the call which q continues. ok is false if this process
// holds it, or if q is not allowed to continue it.
func (s *parkedCalls) heldBy(q *stateless.Request) (instance sealed.ID, ok bool) {
	if q.State == nil {
		return instance, false
	}
	st, instance, ok := s.Proxy.Sealer().OpenState(gjson.ParseBytes(q.State).String())
	return instance, ok && instance != s.Instance && mayGoOn(&st, q)
}

// mayGoOn reports whether q continues the request that the state was made for, comes from the same
// user, and comes in time.
func mayGoOn(st *sealed.State, q *stateless.Request) bool {
	return time.Now().Before(st.Expires) && st.User == sha256.Sum256([]byte(q.User)) && st.Digest == q.Digest()
}

// anotherToken is the data of the error for a client that continues a call with another token than it
// began with. For dragoman that is another client.
const anotherToken = `{"reason":"the call was made with another Authorization; where tokens are refreshed while a user is asked, bridge.principal: claim:iss+sub or header:NAME knows the user by something else"}`

// anotherLogin is the data of the error for a client that continues a call after dragoman's own login to the server
// has become another one.
const anotherLogin = `{"reason":"the call was made with another login to the server than the present one; make it again"}`

// ofAnotherToken reports whether the call was made with a token and q has a different one.
func ofAnotherToken(st *sealed.State, q *stateless.Request) bool {
	guest, token, _ := strings.Cut(q.User, "/")
	return token != "" && st.User != sha256.Sum256([]byte(q.User)) && st.User != sha256.Sum256([]byte(guest))
}

// resume makes a request with answers the one that waits for the parked call, whose messages are then in box. If begin is
// true, the request has to begin the call again instead, and the caller then calls repeated when it is over.
func (s *parkedCalls) resume(c caller) (box *outbox.Outbox, begin bool, err error) {
	st, instance, ok := s.Proxy.Sealer().OpenState(gjson.ParseBytes(c.q.State).String())
	if !ok || instance != s.Instance || !mayGoOn(&st, c.q) {
		f := mcp.Fail(mcp.StateInvalid, "")
		if !ok {
			f.Err = report.ErrOthersState
		}
		if ok && s.Host.Config().Bridge.Principal == "authorization" && ofAnotherToken(&st, c.q) {
			f.Data = []byte(anotherToken)
		}
		return nil, false, f
	}
	s.mu.Lock()
	d := s.byID[st.ID]
	s.mu.Unlock()
	if d == nil {
		return nil, false, mcp.Fail(mcp.StateInvalid, "")
	}
	if d.login != s.Proxy.Login() {
		f := mcp.Fail(mcp.StateInvalid, "")
		f.Data = []byte(anotherLogin)
		return nil, false, f
	}
	if c.q.Inputs == nil {
		c.q.Inputs = []byte("{}")
	}
	if !objects(c.q.Inputs) {
		return nil, false, mcp.Fail(mcp.InputsInvalid, "")
	}
	if c.who != d.who {
		if err := d.checkToken(c); err != nil {
			return nil, false, err
		}
	}
	return d.attach(c, st)
}

// checkToken asks the server to accept the token that brings the answers, if it is not the token that the
// call was made with: dragoman only knows that both tokens claim to be the same user's. The server
// must let the new token begin a session, and must then answer a ping with it on the session
// where the call is open. Before both succeed the call is unchanged, and the client learns nothing about it.
func (d *parkedCall) checkToken(c caller) error {
	b, err := d.of.pool.get(c)
	if err != nil {
		return err
	}
	defer d.of.pool.release(b)
	err = d.b.ask(c.ctx, wire.Ping, []byte("{}"), c.from)
	if err != nil && report.FailureOf(err).Status == 404 { // the session is gone, and the call with it
		return mcp.Fail(mcp.StateInvalid, "")
	}
	return err
}

// attach makes c the client's waiting request, and sends its answers to the server.
func (d *parkedCall) attach(c caller, st sealed.State) (box *outbox.Outbox, begin bool, err error) {
	d.mu.Lock()
	again := d.box != nil // the round was answered already
	if d.over || st.Round != d.round || again && !wire.Equal(c.q.Inputs, d.inputs) {
		d.mu.Unlock()
		return nil, false, mcp.Fail(mcp.StateInvalid, "")
	}
	if err := d.held.Resize(d.size() - len(d.inputs) + len(c.q.Inputs)); err != nil {
		d.mu.Unlock()
		return nil, false, err
	}
	c.q.Counts.Span().Continues(d.before)
	if d.urls {
		if all, refused := d.opened(c.q.Inputs); all || refused != "" {
			d.of.repeating()
			defer func() {
				if !begin {
					d.of.repeated()
				}
			}()
			d.endLocked()
			d.mu.Unlock()
			return d.repeat(c, refused)
		}
	}
	if again {
		d.box.Put(outbox.Message{Body: mcp.Fail(mcp.Superseded, "").WithID(d.reply.ID).Body(), Last: true, Status: 200})
	}
	d.seen.Came(observe.Message{Edge: observe.ClientEdge, Direction: observe.ToServer, Copy: d.seen.Keep(c.q.Raw)})
	d.seen.Note(observe.Note{By: observe.Bridge, What: "answered", To: observe.ToServer, Detail: "the answers in the client's request go to the server as responses to its questions"})
	box = outbox.New()
	box.CountBy(d.of.Host.Report)
	box.OnLeave(d)
	d.box, d.reply, d.inputs, d.from = box, c.q, bytes.Clone(c.q.Inputs), c.from
	for _, l := range d.kept.Take() {
		if l.Body = readdressed(l.Body, c.q); l.Body != nil {
			box.Put(l)
		}
	}
	var answered []pendingQuestion
	var answers []string
	if !again {
		var left []pendingQuestion
		answered, answers, left = d.asked.match(c.q.Inputs)
		d.setAsked(left)
		if d.urls {
			answered = nil // dragoman asked these questions, not the server
		}
		d.halt()
		if len(left) > 0 {
			d.after(0, d.askClient)
		}
		d.awaitServer(d.patience().FirstByte)
	}
	answer := d.answer
	d.mu.Unlock()
	defer func() {
		if p := recover(); p != nil {
			box.Close() // the call need not wait for a client that gets an error
			panic(p)
		}
	}()
	for n, p := range answered {
		if answer != nil && !p.Loose {
			continue // the server does not wait for this answer any more
		}
		if err := d.b.deliver(&p.Question, mcp.AppendResult(nil, p.ID, answers[n]), c.from); err != nil {
			at := d.b.at(c.from)
			at.Method = c.q.Name
			err = d.of.Host.Report.Failed(err, at) // a refusal of the session's, of which others know nothing
			if err = d.parkAgain(c, box, answered[n:], st.Expires, err); err != nil {
				if report.FailureOf(err).UnknownSession() { // no later answer can reach the call
					d.abandon("the server has lost the session")
				}
				return nil, false, err
			}
			return box, false, nil
		}
	}
	if answer != nil {
		d.finish(*answer)
	}
	return box, false, nil
}

// parkAgain parks the call again, since the server did not accept c's answers to the questions left, for
// example because a token has expired. The next retry may bring them again. If it returns nil, the outcome is in box.
func (d *parkedCall) parkAgain(c caller, box *outbox.Outbox, left []pendingQuestion, until time.Time, err error) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.over {
		return nil
	}
	d.setAsked(append(slices.Clone(left), d.asked.open...))
	waits, reply := d.box, d.reply
	if waits == nil { // it was answered with other questions, and the call is parked already
		return nil
	}
	d.box, d.reply, d.inputs = nil, nil, nil
	d.after(time.Until(until), d.expire)
	if waits != box { // a repetition of the same retry has taken c's place
		f := d.of.Host.Report.Failed(err, c.q.At(c.from)).WithID(reply.ID)
		waits.Put(outbox.Message{Body: f.Body(), Last: true, Status: f.Status})
		return nil
	}
	return err
}

// opened reports whether the user has agreed to open all URLs. If the user has refused one, refused is
// the message of its question. The caller holds d.mu.
func (d *parkedCall) opened(inputs []byte) (all bool, refused string) {
	answered, answers, left := d.asked.match(inputs)
	for n, a := range answers {
		if gjson.Get(a, "action").String() != "accept" {
			return false, cmp.Or(gjson.GetBytes(answered[n].Body, "params.message").String(), "opening a URL")
		}
	}
	return len(left) == 0, ""
}

// repeat lets the client's request make the call again after the user has opened the URLs that the server required. It first waits
// a little, as the server may learn of that later than the user's answer comes. If refused is not "",
// the user has refused that question, and repeat answers the call instead.
func (d *parkedCall) repeat(c caller, refused string) (box *outbox.Outbox, begin bool, err error) {
	if refused == "" {
		d.b.urls.await(c.ctx, &d.b.life, d, d.of.Host.Config().Bridge.OpenedTimeout)
		d.forgetURLs()
		if c.ctx.Err() != nil {
			return nil, false, context.Cause(c.ctx)
		}
		c.q.Inputs, c.q.State = nil, nil
		c.q.Address = d.first.Address // the client's, even if another replica forwarded the request
		return nil, true, nil
	}
	d.forgetURLs()
	c.q.Counts.Settle(metrics.Local)
	text := "User did not complete: " + refused
	body := mcp.AppendError(nil, c.q.ID, -32603, text, nil)
	if c.q.Method == wire.ToolsCall {
		body = mcp.AppendResult(nil, c.q.ID, `{"resultType":"complete","content":[{"type":"text","text":`+string(wire.AppendQuoted(nil, text))+`}],"isError":true}`)
	}
	box = outbox.New()
	box.Put(outbox.Message{Body: body, Last: true, Status: 200})
	return box, false, nil
}
