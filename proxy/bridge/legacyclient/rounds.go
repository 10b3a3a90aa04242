package legacyclient

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/tidwall/gjson"

	"github.com/dragoman-proxy/dragoman/proxy/bridge"
	"github.com/dragoman-proxy/dragoman/proxy/mcp"
	"github.com/dragoman-proxy/dragoman/proxy/server"
	"github.com/dragoman-proxy/dragoman/translate/wire"
)

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
