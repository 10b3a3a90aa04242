package legacyclient

import (
	"context"
	"strings"

	"github.com/tidwall/gjson"
	"github.com/tidwall/sjson"

	"github.com/dragoman-proxy/dragoman/proxy/observe"
	"github.com/dragoman-proxy/dragoman/proxy/results"
	"github.com/dragoman-proxy/dragoman/proxy/server"
	"github.com/dragoman-proxy/dragoman/proxy/upstream"
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
	if b.method == wire.ToolsCall && c.web {
		params, err := c.paramHeaders(ctx, b.target, b.request.Body, b.from)
		if err != nil {
			return err
		}
		h = append(h, params...)
	}
	b.request.Header = h
	return nil
}

// send sends the request again, with these answers.
func (b *call) send(answers []*ask) error {
	b.closeServerStream()
	b.sent, b.answers = b.c.nextID(), answers
	o := b.request
	var err error
	if o.Body, err = sjson.SetRawBytes(o.Body, "id", b.sent); err != nil {
		return err
	}
	if len(answers) > 0 {
		inputs := []byte{'{'}
		for i, a := range answers {
			if i > 0 {
				inputs = append(inputs, ',')
			}
			inputs = append(append(append(inputs, a.name...), ':'), a.answer...)
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
	b.st, err = b.c.conn.Send(b.ctx, &o)
	if e, as := server.RefusalOf(err, b.sent); err != nil && as == nil {
		b.st, err = answerHere(b.ctx, func(context.Context) ([]byte, error) { return e.Data, nil }), nil
	}
	return err
}

// sendRefreshed sends the request again, with headers that follow the tool's present schema.
func (b *call) sendRefreshed() error {
	b.c.tools.Forget()
	if err := b.setHeaders(b.span.Within(b.ctx)); err != nil {
		return err
	}
	return b.send(b.answers)
}
