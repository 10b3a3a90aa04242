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

	"github.com/dragoman-proxy/dragoman/proxy/clienterror"
	"github.com/dragoman-proxy/dragoman/proxy/mcp"
	"github.com/dragoman-proxy/dragoman/proxy/metrics"
	"github.com/dragoman-proxy/dragoman/proxy/observe"
	"github.com/dragoman-proxy/dragoman/proxy/outbox"
	"github.com/dragoman-proxy/dragoman/proxy/sealed"
	"github.com/dragoman-proxy/dragoman/proxy/stateless"
	"github.com/dragoman-proxy/dragoman/translate/wire"
)

// heldBy returns the other process that holds the call which q continues. ok is false if this process
// holds it, or if q is not allowed to continue it.
func (s *parkedCalls) heldBy(q *stateless.Request) (instance sealed.ID, ok bool) {
	if q.State == nil {
		return instance, false
	}
	st, instance, ok := s.br.proxy.Sealer().OpenState(gjson.ParseBytes(q.State).String())
	return instance, ok && instance != s.instance && mayGoOn(&st, q)
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

// resume attaches r, which has its client's answers, to the parked call.
func (s *parkedCalls) resume(r *relay) error {
	st, instance, ok := s.br.proxy.Sealer().OpenState(gjson.ParseBytes(r.q.State).String())
	if !ok || instance != s.instance || !mayGoOn(&st, r.q) {
		f := mcp.Fail(mcp.StateInvalid, "")
		if ok && s.br.host.Config().Bridge.Principal == "authorization" && ofAnotherToken(&st, r.q) {
			f.Data = []byte(anotherToken)
		}
		return f
	}
	d := s.find(st.ID)
	if d == nil {
		return mcp.Fail(mcp.StateInvalid, "")
	}
	if d.login != s.br.proxy.Login() {
		f := mcp.Fail(mcp.StateInvalid, "")
		f.Data = []byte(anotherLogin)
		return f
	}
	if r.q.Inputs == nil {
		r.q.Inputs = []byte("{}")
	}
	if !objects(r.q.Inputs) {
		return mcp.Fail(mcp.InputsInvalid, "")
	}
	if r.who != d.who {
		if err := d.checkToken(r); err != nil {
			return err
		}
	}
	return d.attach(r, st)
}

// checkToken asks the server to accept the token that brings the answers, if it is not the token that the
// call was made with: dragoman only knows that both tokens claim to be the same user's. The server
// must let the new token begin a session, and must then answer a ping with it on the session
// where the call is open. Before both succeed the call is unchanged, and the client learns nothing about it.
func (d *parkedCall) checkToken(r *relay) error {
	b, err := d.br.pool.get(r.ctx, r.q, r.who, r.from)
	if err != nil {
		return err
	}
	defer d.br.pool.release(b)
	err = d.b.ask(r.ctx, wire.Ping, []byte("{}"), r.from)
	if err != nil && clienterror.Of(err).Status == 404 { // the session is gone, and the call with it
		return mcp.Fail(mcp.StateInvalid, "")
	}
	return err
}

// attach makes r the client's waiting request, and sends its answers to the server.
func (d *parkedCall) attach(r *relay, st sealed.State) error {
	d.mu.Lock()
	again := d.box != nil // the round was answered already
	if d.over || st.Round != d.round || again && !wire.Equal(r.q.Inputs, d.inputs) {
		d.mu.Unlock()
		return mcp.Fail(mcp.StateInvalid, "")
	}
	r.q.Counts.Span().Continues(d.before)
	if d.urls {
		if all, refused := d.opened(r.q.Inputs); all || refused != "" {
			d.endLocked()
			d.mu.Unlock()
			return d.repeat(r, refused)
		}
	}
	if again {
		d.box.Put(outbox.Message{Body: mcp.Fail(mcp.Superseded, "").WithID(d.reply.ID).Body(), Last: true, Status: 200})
	}
	d.seen.Came(observe.Message{Edge: observe.ClientEdge, Direction: observe.ToServer, Copy: d.seen.Keep(r.q.Raw)})
	d.seen.Note(observe.Note{By: observe.Bridge, What: "answered", To: observe.ToServer, Detail: "the answers in the client's request go to the server as responses to its questions"})
	box := outbox.New()
	box.OnLeave(d)
	d.box, d.reply, d.inputs, d.from = box, r.q, bytes.Clone(r.q.Inputs), r.from
	for _, l := range d.kept.Take() {
		if l.Body = readdressed(l.Body, r.q); l.Body != nil {
			box.Put(l)
		}
	}
	var answered []pendingQuestion
	var answers []string
	if !again {
		var left []pendingQuestion
		answered, answers, left = d.asked.match(r.q.Inputs)
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
	r.box = box
	for n, p := range answered {
		if answer != nil && !p.Loose {
			continue // the server does not wait for this answer any more
		}
		if err := d.b.deliver(mcp.AppendResult(nil, p.ID, answers[n]), r.from); err != nil {
			return d.parkAgain(r, box, answered[n:], st.Expires, err)
		}
	}
	if answer != nil {
		d.finish(*answer)
	}
	return nil
}

// parkAgain parks the call again, since the server did not accept r's answers to the questions left, for
// example because a token has expired. The next retry may bring them again.
func (d *parkedCall) parkAgain(r *relay, box *outbox.Outbox, left []pendingQuestion, until time.Time, err error) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.over {
		return nil // the outcome is in the box
	}
	d.setAsked(append(slices.Clone(left), d.asked.open...))
	waits, reply := d.box, d.reply
	if waits == nil { // it was answered with other questions, and the call is parked already
		return nil
	}
	d.box, d.reply, d.inputs = nil, nil, nil
	d.after(time.Until(until), d.expire)
	if waits != box { // a repetition of the same retry has taken r's place
		f := r.br.host.Report.Failed(err, r.q.At(r.from)).WithID(reply.ID)
		waits.Put(outbox.Message{Body: f.Body(), Last: true, Status: f.Status})
		return nil
	}
	r.box = nil
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

// repeat makes the call again after the user has opened the URLs that the server required. It first waits
// a little, as the server may learn of that later than the user's answer comes. If refused is not "",
// the user has refused that question, and repeat answers the call instead.
func (d *parkedCall) repeat(r *relay, refused string) error {
	if refused == "" {
		d.b.awaitOpened(r.ctx, d, d.br.host.Config().Bridge.OpenedTimeout)
		if r.ctx.Err() != nil {
			return context.Cause(r.ctx)
		}
		r.q.Inputs, r.q.State = nil, nil
		r.q.Address = d.first.Address // the client's, even if another replica forwarded the request
		return r.begin()
	}
	d.b.forgetOpened(d)
	r.q.Counts.Settle(metrics.Local)
	text := "User did not complete: " + refused
	box := outbox.New()
	r.box = box
	body := mcp.AppendError(nil, r.q.ID, -32603, text, nil)
	if r.q.Method == wire.ToolsCall {
		body = mcp.AppendResult(nil, r.q.ID, `{"resultType":"complete","content":[{"type":"text","text":`+string(mcp.AppendString(nil, text))+`}],"isError":true}`)
	}
	box.Put(outbox.Message{Body: body, Last: true, Status: 200})
	return nil
}
