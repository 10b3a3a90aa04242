package legacyclient

import (
	"bytes"
	"fmt"
	"slices"

	"github.com/tidwall/gjson"

	"github.com/dragoman-proxy/dragoman/proxy/protocol/crossing"
	"github.com/dragoman-proxy/dragoman/proxy/protocol/mcp"
	"github.com/dragoman-proxy/dragoman/translate"
	"github.com/dragoman-proxy/dragoman/translate/wire"
)

// phrase makes the request to the client for a question. It reports false if the client has not declared the
// capability for it.
func (c *Conn) phrase(a *ask, q gjson.Result) (body []byte, able bool) {
	switch mode := q.Get("params.mode").String(); {
	case a.method == wire.SamplingCreateMessage && c.facts.Has(wire.ClientSampling):
	case a.method == wire.RootsList && c.facts.Has(wire.ClientRoots):
	case a.method == wire.ElicitationCreate && mode == "url" && c.facts.Has(wire.ClientElicitationURL):
		a.opens = wire.AppendQuoted(nil, mcp.NewUUID())
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
	c.host.Losses.Note(c.lossPeers(c.down), a.method, m.Losses, nil)
	a.note = append([]byte(nil), m.Note...)
	if len(out) <= crossing.MaxAskedAgain && translate.Counts(a.note) {
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
	question, err := crossing.Rephrase(a.again, a.id)
	if a.again = nil; err != nil {
		return nil
	}
	c.expect([]*ask{a})
	return question
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
func (c *Conn) receiveAnswer(m *wire.Message, header []mcp.Header) {
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

// translateAnswer sets the answer for the server, or returns the question to ask again. trouble says why there is
// neither.
func (c *Conn) translateAnswer(h receivedAnswer, m *wire.Message, header []mcp.Header) (question []byte, trouble string) {
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
	c.host.Losses.Note(c.lossPeers(c.up), a.method, m.Losses, header)
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
