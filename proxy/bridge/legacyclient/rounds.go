package legacyclient

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/tidwall/gjson"
	"github.com/tidwall/sjson"

	"github.com/dragoman-proxy/dragoman/proxy/observe"
	"github.com/dragoman-proxy/dragoman/proxy/pipes"
	"github.com/dragoman-proxy/dragoman/proxy/pipes/mcpheader"
	"github.com/dragoman-proxy/dragoman/proxy/pipes/results"
	"github.com/dragoman-proxy/dragoman/proxy/protocol/crossing"
	"github.com/dragoman-proxy/dragoman/proxy/protocol/mcp"
	"github.com/dragoman-proxy/dragoman/proxy/protocol/toolindex"
	"github.com/dragoman-proxy/dragoman/proxy/transport/upstream"
	"github.com/dragoman-proxy/dragoman/translate/wire"
)

// keep returns what f appends, in memory of the call. Nothing writes to it again.
func (b *call) keep(f func(dst []byte) []byte) []byte {
	from := len(b.names)
	b.names = f(b.names)
	return b.names[from:len(b.names):len(b.names)]
}

// keepText returns a copy of text.
func (b *call) keepText(text string) string {
	return wire.View(b.keep(func(dst []byte) []byte { return append(dst, text...) }))
}

// post sends the first request, or takes the answer that e has found.
func (b *call) post(e *results.Enquiry) (upstream.Stream, error) {
	if e == nil {
		b.first = b.request
		b.first.Told = &b.told
		b.seen.Went(observe.ServerEdge, observe.ToServer, b.first.Body)
		return b.c.conn.Send(b.ctx, &b.first)
	}
	o := b.request
	return e.Open(b.ctx, b.sent, func() (upstream.Stream, error) {
		b.seen.Went(observe.ServerEdge, observe.ToServer, o.Body)
		return b.c.conn.Send(b.ctx, &o)
	})
}

// setHeaders sets the headers of the request. The schema of a tool says which arguments become headers.
func (b *call) setHeaders(ctx context.Context) error {
	c := b.c
	h := c.headers(b.from, strings.Clone(gjson.Get(wire.View(b.request.Body), "method").String()), b.target)
	if b.method == wire.ToolsCall && c.reach == ByHTTP {
		params, err := c.paramHeaders(ctx, b.target, b.request.Body, b.from)
		if err != nil {
			return err
		}
		h = append(h, params...)
	}
	b.request.Header = h
	return nil
}

// hears makes st the stream that is read or, if err is a refusal with an answer in its body, that answer. Any other error it
// returns.
func (b *call) hears(st upstream.Stream, err error) error {
	if e, as := pipes.RefusalOf(err, b.sent); err != nil && as == nil {
		st, err = upstream.Answered(e.Data), nil
	}
	b.st = st
	return err
}

// send sends the request again, with these answers.
func (b *call) send(answers []*ask) error {
	b.closeServerStream()
	b.progress.Again.Store(true)
	b.sent, b.answers = b.c.nextID(), answers
	o := b.request
	var err error
	if o.Body, err = sjson.SetRawBytes(o.Body, "id", b.sent); err != nil {
		return err
	}
	if len(answers) > 0 {
		inputs := []byte{'{'}
		for _, a := range answers {
			inputs = append(append(append(wire.Comma(inputs), a.name...), ':'), a.answer...)
		}
		if o.Body, err = sjson.SetRawBytes(o.Body, "params.inputResponses", append(inputs, '}')); err != nil {
			return err
		}
	}
	if b.state != "" {
		if o.Body, err = sjson.SetRawBytes(o.Body, "params.requestState", []byte(b.state)); err != nil {
			return err
		}
	}
	o.Body, o.Header = b.span.Again(o.Body, o.Header)
	b.seen.Note(observe.Note{By: observe.Bridge, What: "sent_again", To: observe.ToServer, Detail: "the request goes to the server once more, with the client's answers if it was asked something"})
	b.seen.Add(observe.Message{Edge: observe.ServerEdge, Direction: observe.ToServer, Copy: b.seen.Keep(o.Body)})
	return b.hears(b.c.conn.Send(b.ctx, &o))
}

// sendRefreshed sends the request again, with headers that follow the tool's present schema.
func (b *call) sendRefreshed() error {
	b.c.tools.Forget()
	if err := b.setHeaders(b.span.Within(b.ctx)); err != nil {
		return err
	}
	return b.send(b.answers)
}

// paramHeaders returns the headers that a call of tool has from its arguments. If the tool
// is not known, it is looked up in the server's list first. call is the request.
func (c *Conn) paramHeaders(ctx context.Context, tool string, call []byte, from []mcp.Header) ([]mcp.Header, error) {
	t, err := c.tools.Look(ctx, tool, toolindex.Ask{Of: c.up.To(), Page: func(params string) ([]byte, error) {
		return c.inquire(ctx, wire.ToolsList, params, from)
	}})
	if err != nil && ctx.Err() != nil {
		return nil, err
	}
	if len(t.Arguments) == 0 {
		return nil, nil
	}
	return mcpheader.Params(t.Arguments, wire.Bytes(gjson.Get(wire.View(call), "params.arguments").Raw))
}

// Knows reports whether a call of tool can be sent without reading the server's list first.
func (c *Conn) Knows(tool string) bool {
	_, known := c.tools.Find(tool)
	return known || c.reach != ByHTTP
}

var errCallOver = errors.New("the call that the answer is for has ended")

const (
	maxRounds = 10 // rounds of questions in one call
	maxSheds  = 3  // times that a call is sent again because the server asked for a later attempt
)

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
	inputs, n := result.Get("inputRequests"), 0
	if inputs.IsObject() {
		inputs.ForEach(func(_, _ gjson.Result) bool { // a name may occur twice
			n++
			return n <= crossing.MaxQuestions
		})
	}
	switch {
	case n > crossing.MaxQuestions:
		return mcp.Saying(mcp.CodeInternal, "the server asks too many questions at once")
	case n == 0 && b.state == "":
		return mcp.Saying(mcp.CodeInternal, "the server asks for input and does not say which")
	case n == 0:
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
			unable = cmp.Or(fmt.Sprintf("%.64s", q.Get("method").String()), "a question without a method")
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

// backOff waits, and sends the call again to a server that did not process it yet.
func (b *call) backOff() error {
	if b.sheds++; b.sheds > maxSheds {
		return mcp.Saying(mcp.CodeInternal, "upstream busy")
	}
	if err := pipes.Sleep(b.ctx, b.c.bridge.Waits.Shed<<(b.sheds-1)); err != nil {
		return err
	}
	return b.send(nil)
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

// answered handles one answer. The text that it returns says why the call cannot continue; "" if it can.
func (b *call) answered(h receivedAnswer) (trouble string) {
	question, trouble := b.c.translateAnswer(h, &b.msgs.down, b.request.Header)
	switch {
	case question != nil:
		b.ready = append(b.ready, question)
	case trouble == "" && h.to.accepted():
		b.opened = append(b.opened, h.to.opens)
	}
	return trouble
}

// continueFor makes the call use the headers of this client from now on.
func (b *call) continueFor(by *answeringClient) {
	if b.request.Header != nil { // on a pipe there are none
		b.request.Header = slices.Concat(by.header, b.request.Header[len(b.from):])
	}
	b.from = by.header
}
