package proxy

import (
	"bytes"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/tidwall/gjson"

	"github.com/dragoman-proxy/dragoman/proxy/mcp"
	"github.com/dragoman-proxy/dragoman/proxy/server"
	"github.com/dragoman-proxy/dragoman/proxy/upstream"
	"github.com/dragoman-proxy/dragoman/translate"
	"github.com/dragoman-proxy/dragoman/translate/wire"
)

var errCallOver = errors.New("the call that the answer is for has ended")

// cancelledAnswer is the answer of a client that does not want to say, and of one that
// cannot be asked.
const cancelledAnswer = `{"action":"cancel"}`

// questions takes up an InputRequiredResult: what it asks becomes requests to the
// client, and without a question the call is sent again after a while.
func (b *bridgedCall) questions(result gjson.Result) error {
	switch b.method {
	case wire.ToolsCall, wire.PromptsGet, wire.ResourcesRead:
	default:
		return mcp.Saying(mcp.CodeInternal, "the server asks for input, which "+b.method.String()+" does not have")
	}
	if b.rounds++; b.rounds > maxRounds {
		return mcp.Saying(mcp.CodeInternal, fmt.Sprintf("the server asked for input more than %d times", maxRounds))
	}
	b.state = strings.Clone(result.Get("requestState").Raw)
	inputs := result.Get("inputRequests")
	list := inputs.Map()
	switch {
	case len(list) > maxQuestions:
		return mcp.Saying(mcp.CodeInternal, "the server asks too much at once")
	case len(list) == 0 && b.state == "":
		return mcp.Saying(mcp.CodeInternal, "the server asks for input and does not say which")
	case len(list) == 0:
		return b.backOff()
	}
	var asking []*ask
	var bodies [][]byte
	unable := ""
	inputs.ForEach(func(name, q gjson.Result) bool {
		a := &ask{name: strings.Clone(name.Raw), method: wire.MethodOf([]byte(q.Get("method").String()))}
		body, able := b.c.phrase(a, q)
		switch {
		case able:
			bodies = append(bodies, body)
		case a.method == wire.ElicitationCreate:
			a.answer = []byte(cancelledAnswer)
		default:
			unable = fmt.Sprintf("%.64s", q.Get("method").String())
			return false
		}
		asking = append(asking, a)
		return true
	})
	if unable != "" {
		b.fail("Client cannot answer " + unable)
		return nil
	}
	b.asking, b.heard = asking, make(chan receivedAnswer, len(asking)) // a name may be there twice
	for _, a := range asking {
		a.heard = b.heard
	}
	b.c.expect(asking)
	b.ready = append(b.ready, bodies...)
	return nil
}

// phrase makes a request to the client of a question; false when the client has not
// declared that it can be asked this.
func (c *modernConn) phrase(a *ask, q gjson.Result) (body []byte, able bool) {
	switch mode := q.Get("params.mode").String(); {
	case a.method == wire.SamplingCreateMessage && c.facts.Has(wire.ClientSampling):
	case a.method == wire.RootsList && c.facts.Has(wire.ClientRoots):
	case a.method == wire.ElicitationCreate && mode == "url" && c.facts.Has(wire.ClientElicitationURL):
		a.opens = mcp.AppendString(nil, newUUID())
	case a.method == wire.ElicitationCreate && mode != "url" && c.facts.Has(wire.ClientElicitationForm):
	default:
		return nil, false
	}
	a.id = c.askID()
	params := ""
	if p := q.Get("params"); p.IsObject() {
		params = p.Raw
	}
	var m wire.Message
	if m.Scan(mcp.Request(a.id, a.method, params), c.down.Shape()) != nil {
		return nil, false
	}
	m.Facts, m.Stamp = c.facts, &wire.Stamp{ElicitationID: a.opens}
	out, v, err := c.down.Rewrite(nil, &m)
	c.srv.host.Losses.Note(c.down.From(), c.down.To(), a.method, m.Losses, nil)
	a.note = append([]byte(nil), m.Note...)
	if len(out) <= maxAskedAgain && translate.Counts(a.note) {
		a.again = bytes.Clone(out)
	}
	return out, err == nil && v == wire.Forward
}

// askID is an id for a question to the client, as JSON.
func (c *modernConn) askID() []byte {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.lastAsk++
	return fmt.Appendf(nil, `"%s%d"`, c.prefix, c.lastAsk)
}

// repeat is the question to ask once more, after an answer that does not fit; nil when
// it has been.
func (c *modernConn) repeat(a *ask) []byte {
	if a.again == nil {
		return nil
	}
	a.id = c.askID()
	question, err := rephrased(a.again, a.id)
	if a.again = nil; err != nil {
		return nil
	}
	c.expect([]*ask{a})
	return question
}

// newUUID is a random UUID (https://www.rfc-editor.org/rfc/rfc9562#section-5.4).
func newUUID() string {
	var u [16]byte
	rand.Read(u[:]) // never fails
	u[6], u[8] = u[6]&0x0f|0x40, u[8]&0x3f|0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", u[:4], u[4:6], u[6:8], u[8:10], u[10:])
}

// shed waits before the call is sent again to a server that does not take it yet.
func (b *bridgedCall) backOff() error {
	if b.sheds++; b.sheds > maxSheds {
		return mcp.Saying(mcp.CodeInternal, "upstream busy")
	}
	if err := server.Sleep(b.ctx, firstShed<<(b.sheds-1)); err != nil {
		return err
	}
	return b.send(nil)
}

// expect enters questions.
func (c *modernConn) expect(list []*ask) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, a := range list {
		if a.answer == nil {
			c.asked[string(wire.AppendIDKey(nil, a.id))] = a
		}
	}
}

// forget takes those of list out that have no answer yet, and returns them.
func (c *modernConn) forget(list []*ask) (open []*ask) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, a := range list {
		key := string(wire.AppendIDKey(nil, a.id))
		if c.asked[key] == a {
			delete(c.asked, key)
			open = append(open, a)
		}
	}
	return open
}

// hear leads a client's answer to the call that waits for it, with the headers of the
// POST that brought it. m's memory is the call's from now on.
func (c *modernConn) receiveAnswer(m *wire.Message, header []upstream.Header) {
	key := string(wire.AppendIDKey(nil, m.ID()))
	c.mu.Lock()
	a := c.asked[key]
	delete(c.asked, key)
	c.mu.Unlock()
	if a == nil {
		c.srv.host.Report.Dropped("unknown_id")
		return
	}
	a.heard <- receivedAnswer{a, m.Raw, slices.Clone(header)}
}

// await waits until the client has answered everything, and tells the server.
func (b *bridgedCall) await() error {
	timer := time.NewTimer(b.c.srv.now().cfg.Bridge.ParkTimeout)
	defer timer.Stop()
	for {
		missing := 0
		for _, a := range b.asking {
			if a.answer == nil {
				missing++
			}
		}
		if missing == 0 {
			break
		}
		select {
		case h := <-b.heard:
			if trouble := b.answered(h); trouble != "" {
				b.fail(trouble)
				return nil
			}
			if len(b.ready) > 0 {
				return nil // to be asked before we go on waiting
			}
		case <-timer.C:
			b.fail("Client did not answer in time")
			return nil
		case <-b.gone:
			return errCallOver
		case <-b.ctx.Done():
			return b.ctx.Err()
		}
	}
	answers := b.asking
	if by, err := answeredBy(answers); err != nil {
		b.fail(err.Error())
		return nil
	} else if by != nil {
		b.continueFor(by)
	}
	b.asking = nil
	if err := b.send(answers); err != nil {
		if b.ctx.Err() == nil {
			b.conclude(b.failed(err))
			return nil
		}
		return err
	}
	return nil
}

// answerer is a client as the headers of its POST identify it to the server.
type answeringClient struct{ header []upstream.Header }

var errAnswerers = errors.New("the answers came with different Authorization headers; call again")

// answeredBy is the client that has answered these questions, nil where none did: the
// server is to judge the answers by its credentials, and not by those of the client that
// made the call.
func answeredBy(list []*ask) (by *answeringClient, err error) {
	for _, a := range list {
		switch {
		case a.by == nil:
		case by != nil && upstream.HeaderValue(by.header, "Authorization") != upstream.HeaderValue(a.by.header, "Authorization"):
			return nil, errAnswerers
		default:
			by = a.by
		}
	}
	return by, nil
}

// goOnFor makes by the client whose headers go along from now on.
func (b *bridgedCall) continueFor(by *answeringClient) {
	if b.stream.Header != nil { // on a pipe there are none
		b.stream.Header = slices.Concat(by.header, b.stream.Header[len(b.from):])
	}
	b.from = by.header
}

// answered notes one answer as the server shall get it. The text that comes back
// says why the call cannot go on.
func (b *bridgedCall) answered(h receivedAnswer) (trouble string) {
	question, trouble := b.c.translateAnswer(h, &b.msg, b.stream.Header)
	switch {
	case question != nil:
		b.ready = append(b.ready, question)
	case trouble == "" && h.to.accepted():
		b.opened = append(b.opened, h.to.opens)
	}
	return trouble
}

// accepted reports whether the client has agreed to open a URL.
func (a *ask) accepted() bool {
	return a.opens != nil && gjson.GetBytes(a.answer, "action").String() == "accept"
}

// translateAnswer makes of an answer what the server shall get, or the question to ask
// again. The text that comes back says why there is nothing.
func (c *modernConn) translateAnswer(h receivedAnswer, m *wire.Message, header []upstream.Header) (question []byte, trouble string) {
	a := h.to
	a.by = &answeringClient{h.header}
	if err := m.Scan(h.raw, c.up.Shape()); err != nil {
		return nil, err.Error()
	}
	if m.Kind == wire.Error {
		if a.method == wire.ElicitationCreate {
			a.answer = []byte(cancelledAnswer)
			return nil, ""
		}
		return nil, a.method.String() + " failed: " + gjson.Get(wire.View(m.Error()), "message").String()
	}
	m.Method, m.Note, m.Facts, m.Stamp = a.method, a.note, c.facts, nil
	out, v, err := c.up.Rewrite(nil, m)
	c.srv.host.Losses.Note(c.up.From(), c.up.To(), a.method, m.Losses, header)
	if err != nil {
		return nil, err.Error()
	}
	if m.Unfit {
		if question = c.repeat(a); question != nil {
			return question, ""
		}
	}
	result := gjson.GetBytes(out, "result")
	if v != wire.Forward || !result.IsObject() {
		return nil, a.method.String() + " failed: its answer is none"
	}
	a.answer = []byte(result.Raw)
	return nil, ""
}
