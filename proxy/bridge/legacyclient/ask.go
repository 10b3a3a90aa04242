package legacyclient

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/tidwall/gjson"

	"github.com/dragoman-proxy/dragoman/proxy/bridge"
	"github.com/dragoman-proxy/dragoman/proxy/mcp"
	"github.com/dragoman-proxy/dragoman/proxy/server"
	"github.com/dragoman-proxy/dragoman/proxy/upstream"
	"github.com/dragoman-proxy/dragoman/translate"
	"github.com/dragoman-proxy/dragoman/translate/wire"
)

var errCallOver = errors.New("the call that the answer is for has ended")

// cancelledAnswer is the answer for a client that cancels the question, and for one that cannot be asked.
const cancelledAnswer = `{"action":"cancel"}`

// questions handles an InputRequiredResult: its questions become requests to the client. If it has none, the call is
// sent again after a while.
func (b *call) questions(result gjson.Result) error {
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
	case len(list) > bridge.MaxQuestions:
		return mcp.Saying(mcp.CodeInternal, "the server asks too many questions at once")
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
	b.asking, b.heard = asking, make(chan receivedAnswer, len(asking)) // a name may occur twice
	for _, a := range asking {
		a.heard = b.heard
	}
	b.c.expect(asking)
	b.ready = append(b.ready, bodies...)
	return nil
}

// phrase makes the request to the client for a question. It reports false if the client has not declared the
// capability for it.
func (c *Conn) phrase(a *ask, q gjson.Result) (body []byte, able bool) {
	switch mode := q.Get("params.mode").String(); {
	case a.method == wire.SamplingCreateMessage && c.facts.Has(wire.ClientSampling):
	case a.method == wire.RootsList && c.facts.Has(wire.ClientRoots):
	case a.method == wire.ElicitationCreate && mode == "url" && c.facts.Has(wire.ClientElicitationURL):
		a.opens = mcp.AppendString(nil, mcp.NewUUID())
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
	c.host.Losses.Note(c.down.From(), c.down.To(), a.method, m.Losses, nil)
	a.note = append([]byte(nil), m.Note...)
	if len(out) <= bridge.MaxAskedAgain && translate.Counts(a.note) {
		a.again = bytes.Clone(out)
	}
	return out, err == nil && v == wire.Forward
}

// askID returns an id for a request to the client, as JSON.
func (c *Conn) askID() []byte {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.lastAsk++
	return fmt.Appendf(nil, `"%s%d"`, c.prefix, c.lastAsk)
}

// repeat returns the question to ask again, after an answer that does not fit. It returns nil the second time.
func (c *Conn) repeat(a *ask) []byte {
	if a.again == nil {
		return nil
	}
	a.id = c.askID()
	question, err := bridge.Rephrase(a.again, a.id)
	if a.again = nil; err != nil {
		return nil
	}
	c.expect([]*ask{a})
	return question
}

// backOff waits, and sends the call again to a server that did not process it yet.
func (b *call) backOff() error {
	if b.sheds++; b.sheds > maxSheds {
		return mcp.Saying(mcp.CodeInternal, "upstream busy")
	}
	if err := server.Sleep(b.ctx, b.c.bridge.Waits.Shed<<(b.sheds-1)); err != nil {
		return err
	}
	return b.send(nil)
}

// expect registers questions whose answers will come.
func (c *Conn) expect(list []*ask) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, a := range list {
		if a.answer == nil {
			c.asked[string(wire.AppendIDKey(nil, a.id))] = a
		}
	}
}

// forget unregisters the questions in list that have no answer yet, and returns them.
func (c *Conn) forget(list []*ask) (open []*ask) {
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

// receiveAnswer passes a response of the client, with the headers of its POST, to the call that waits for it. The
// memory of m belongs to the call from now on.
func (c *Conn) receiveAnswer(m *wire.Message, header []upstream.Header) {
	key := string(wire.AppendIDKey(nil, m.ID()))
	c.mu.Lock()
	a := c.asked[key]
	delete(c.asked, key)
	c.mu.Unlock()
	if a == nil {
		c.host.Report.Dropped("unknown_id")
		return
	}
	a.heard <- receivedAnswer{a, m.Raw, slices.Clone(header)}
}

// await waits for all answers of the client, and sends them to the server.
func (b *call) await() error {
	timer := time.NewTimer(b.c.host.Config().Bridge.ParkTimeout)
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
				return nil // ask the client before waiting again
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

// answeringClient is a client as the headers of its POST identify it to the server.
type answeringClient struct{ header []upstream.Header }

var errAnswerers = errors.New("the answers came with different Authorization headers; call again")

// answeredBy returns the client that has answered these questions, or nil. The server must judge the answers by the
// credentials of this client, and not by those of the client that made the call.
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

// continueFor makes the call use the headers of this client from now on.
func (b *call) continueFor(by *answeringClient) {
	if b.stream.Header != nil { // on a pipe there are none
		b.stream.Header = slices.Concat(by.header, b.stream.Header[len(b.from):])
	}
	b.from = by.header
}

// answered handles one answer. The text that it returns says why the call cannot continue; "" if it can.
func (b *call) answered(h receivedAnswer) (trouble string) {
	question, trouble := b.c.translateAnswer(h, &b.msgs.down, b.stream.Header)
	switch {
	case question != nil:
		b.ready = append(b.ready, question)
	case trouble == "" && h.to.accepted():
		b.opened = append(b.opened, h.to.opens)
	}
	return trouble
}

// accepted reports whether the client has accepted to open a URL.
func (a *ask) accepted() bool {
	return a.opens != nil && gjson.GetBytes(a.answer, "action").String() == "accept"
}

// translateAnswer sets the answer for the server, or returns the question to ask again. trouble says why there is
// neither.
func (c *Conn) translateAnswer(h receivedAnswer, m *wire.Message, header []upstream.Header) (question []byte, trouble string) {
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
	c.host.Losses.Note(c.up.From(), c.up.To(), a.method, m.Losses, header)
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
