package legacyclient

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/tidwall/gjson"
	"go.uber.org/zap"

	"github.com/dragoman-proxy/dragoman/proxy/bytes/sse"
	"github.com/dragoman-proxy/dragoman/proxy/ops/report"
	"github.com/dragoman-proxy/dragoman/proxy/protocol/mcp"
	"github.com/dragoman-proxy/dragoman/proxy/transport/upstream"
	"github.com/dragoman-proxy/dragoman/translate/wire"
)

// taskWait is the stream of a tasks/result request. The response comes when the task has ended. Until then the server is
// polled, and its questions are asked on this stream. The goroutine that calls Events runs it.
type taskWait struct {
	upstream.Plain
	c      *Conn
	ctx    context.Context
	cancel context.CancelFunc
	free   func() bool
	id     []byte // the client's
	task   string
	header []mcp.Header

	mu     sync.Mutex // held while the next event is found
	msg    wire.Message
	ready  [][]byte // messages for the client that come first
	over   bool
	polled bool
	wait   time.Duration // until the next poll
	asking []*ask        // questions of this stream, in order
	heard  chan receivedAnswer
	opened [][]byte
}

// Events implements [upstream.Stream].
func (w *taskWait) Events(yield func(sse.Event, error) bool) {
	for {
		if e, err := w.event(); !yield(e, err) || err != nil {
			return
		}
	}
}

// event returns the next event for the client.
func (w *taskWait) event() (sse.Event, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for {
		switch {
		case len(w.ready) > 0:
			out := w.ready[0]
			w.ready = w.ready[1:]
			return sse.Event{Data: out}, nil
		case w.over:
			return sse.Event{}, io.EOF
		}
		if err := w.step(); err != nil {
			if w.ctx.Err() != nil {
				return sse.Event{}, w.why()
			}
			w.conclude(w.c.host.Report.Failed(err, report.At{Method: wire.TasksResult.String(), Client: w.c.up.From(), Server: w.c.up.To(), Header: w.header}).WithID(w.id).Body())
		}
	}
}

func (w *taskWait) why() error {
	if w.c.life.Err() != nil {
		return upstream.ErrClosed
	}
	return context.Cause(w.ctx)
}

// step waits for an answer of the client or for the next poll, and handles it.
func (w *taskWait) step() error {
	if w.polled {
		timer := time.NewTimer(w.wait)
		defer timer.Stop()
		select {
		case h := <-w.heard:
			return w.receiveAnswer(h)
		case <-timer.C:
		case <-w.ctx.Done():
			return w.ctx.Err()
		}
	}
	w.polled = true
	return w.poll()
}

// poll reads the state of the task.
func (w *taskWait) poll() error {
	c := w.c
	state, err := c.aboutTask(w.ctx, wire.TasksGet, w.task, "", w.header)
	if err != nil {
		return err
	}
	said := gjson.ParseBytes(state)
	w.wait = pollInterval(said.Get("pollIntervalMs"))
	switch status := said.Get("status").String(); status {
	case "completed":
		out, err := c.downResult(w.id, wire.ToolsCall, []byte(cmp.Or(said.Get("result").Raw, "{}")), w.header)
		if err == nil && gjson.GetBytes(out, "result").IsObject() {
			out, err = ofTask(out, "result", w.task)
		}
		if err != nil {
			return err
		}
		w.conclude(out)
	case "failed":
		fault := said.Get("error")
		if !fault.IsObject() {
			return mcp.Saying(mcp.CodeInternal, cmp.Or(said.Get("statusMessage").String(), "the task has failed"))
		}
		w.conclude(mcp.AppendErrorAs(nil, w.id, fault.Raw))
	case "cancelled":
		return mcp.Saying(mcp.CodeInternal, cmp.Or(said.Get("statusMessage").String(), "the task was cancelled"))
	case "input_required":
		return w.ask(said.Get("inputRequests"))
	}
	return nil
}

func pollInterval(said gjson.Result) time.Duration {
	if said.Type != gjson.Number {
		return defaultPoll
	}
	ms := min(max(said.Num, 0), float64(longestPoll/time.Millisecond))
	return max(time.Duration(ms)*time.Millisecond, shortestPoll)
}

// ask asks the client the questions that it was not asked before.
func (w *taskWait) ask(inputs gjson.Result) error {
	c := w.c
	var trouble error
	mcp.Members(inputs.Raw, func(name string, q gjson.Result) {
		if trouble != nil || !c.claimAsk(w.task, name) {
			return
		}
		a := &ask{heard: w.heard, name: string(wire.AppendQuoted(nil, name)), method: wire.MethodOf([]byte(q.Get("method").String()))}
		if w.asking = append(w.asking, a); len(w.asking) > maxTaskInputs {
			trouble = mcp.Saying(mcp.CodeInternal, "the server asks too many questions at once")
			return
		}
		body, able := c.phrase(a, q)
		if able {
			body, trouble = ofTask(body, "params", w.task)
			c.expect([]*ask{a})
			w.ready = append(w.ready, body)
			return
		}
		if a.answer = []byte(cancelledAnswer); a.method != wire.ElicitationCreate {
			trouble = w.giveUp(fmt.Sprintf("Client cannot answer %.64s", q.Get("method").String()))
		}
	})
	if trouble != nil {
		return trouble
	}
	return w.sendAnswers()
}

// receiveAnswer handles one answer of the client.
func (w *taskWait) receiveAnswer(h receivedAnswer) error {
	question, trouble := w.c.translateAnswer(h, &w.msg, w.header)
	switch {
	case trouble != "":
		return w.giveUp(trouble)
	case question != nil:
		question, err := ofTask(question, "params", w.task)
		if err != nil {
			return err
		}
		w.ready = append(w.ready, question)
		return nil
	}
	if h.to.accepted() {
		w.opened = append(w.opened, h.to.opens)
	}
	return w.sendAnswers()
}

// sendAnswers sends the answers to the server when all of them are there.
func (w *taskWait) sendAnswers() error {
	if len(w.asking) == 0 || slices.ContainsFunc(w.asking, func(a *ask) bool { return a.answer == nil }) {
		return nil
	}
	more := []byte(`,"inputResponses":{`)
	for _, a := range w.asking {
		more = append(append(append(wire.Comma(more), a.name...), ':'), a.answer...)
	}
	header := w.header
	by, err := answeredBy(w.asking)
	if err != nil {
		return w.giveUp(err.Error())
	}
	if by != nil {
		header = by.header
	}
	if _, err = w.c.aboutTask(w.ctx, wire.TasksUpdate, w.task, string(append(more, '}')), header); err != nil {
		return err
	}
	w.c.settleAsks(w.task, w.asking, true)
	w.asking, w.wait = nil, shortestPoll
	return nil
}

// giveUp cancels a task because the client does not answer: there is no way to tell the server why.
func (w *taskWait) giveUp(text string) error {
	if _, err := w.c.aboutTask(w.ctx, wire.TasksCancel, w.task, "", w.header); err != nil {
		w.c.host.Log.Debug("task not cancelled", zap.Error(err))
	}
	result := append([]byte(`{"content":[{"type":"text","text":`), wire.AppendQuoted(nil, text)...)
	out, err := ofTask(mcp.AppendResult(nil, w.id, string(append(result, `}],"isError":true}`...))), "result", w.task)
	if err == nil {
		w.conclude(out)
	}
	return err
}

// conclude ends the stream with this answer.
func (w *taskWait) conclude(answer []byte) {
	w.over = true
	for _, a := range w.drop() {
		w.ready = append(w.ready, mcp.Cancelled(a.id, ""))
	}
	w.ready = append(w.c.appendOpened(w.ready, w.opened, w.header), answer)
}

// drop unregisters the questions, and returns those that have no answer.
func (w *taskWait) drop() []*ask {
	w.c.settleAsks(w.task, w.asking, false)
	open := w.c.forget(w.asking)
	w.asking = nil
	return open
}

// Close closes the stream. The task continues. A client that requests the task's result again gets the
// server's open questions again.
func (w *taskWait) Close() error {
	w.cancel()
	w.free()
	w.mu.Lock()
	defer w.mu.Unlock()
	w.drop()
	return nil
}

func askKey(task, name string) string { return task + "\x00" + name }

// claimAsk reports whether a question was not asked yet, and notes that it is asked now. A server repeats a question
// until it gets the answer.
func (c *Conn) claimAsk(task, name string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	key := askKey(task, name)
	if _, known := c.tasks.asked[key]; known {
		return false
	}
	if c.tasks.asked == nil || len(c.tasks.asked) >= maxTaskAsks {
		c.tasks.asked = make(map[string]bool)
	}
	c.tasks.asked[key] = false
	return true
}

// settleAsks notes that questions were answered, or that they may be asked again.
func (c *Conn) settleAsks(task string, list []*ask, answered bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, a := range list {
		key := askKey(task, gjson.Parse(a.name).String())
		if answered {
			c.tasks.asked[key] = true
		} else {
			delete(c.tasks.asked, key)
		}
	}
}

// task returns the stream of a request about a task that is answered here, or nil if the server answers it.
func (c *Conn) task(ctx context.Context, msg *wire.Message, header []mcp.Header) upstream.Stream {
	if !c.hasTasks() {
		return nil
	}
	id, method := bytes.Clone(msg.ID()), msg.Method
	refused := func(code int, text string) upstream.Stream {
		return upstream.Answered(mcp.Saying(code, text).About(id).Body())
	}
	at := gjson.Get(wire.View(msg.Params()), "taskId")
	name := strings.Clone(at.String())
	done, here := c.bridge.finished.find(&c.done, name)
	header = slices.Clone(header)
	switch {
	case method == wire.TasksUpdate:
		return refused(mcp.CodeMethodNotFound, "Method not found: "+method.String())
	case at.Type != gjson.String:
		return refused(mcp.CodeInvalidParams, "params.taskId must be a string")
	case here:
		return answerHere(ctx, id, func(context.Context) ([]byte, error) { return done.answer(id, method) })
	case c.isShared(name):
		return answerHere(ctx, id, func(ctx context.Context) ([]byte, error) {
			done, err := c.sharedTask(ctx, name)
			if err != nil {
				return nil, err
			}
			return done.answer(id, method)
		})
	case method == wire.TasksGet:
		return nil
	case method == wire.TasksCancel:
		return answerHere(ctx, id, func(ctx context.Context) ([]byte, error) { return c.cancelTask(ctx, id, name, header) })
	}
	w := &taskWait{c: c, id: id, task: name, header: header, heard: make(chan receivedAnswer, maxTaskInputs+1)}
	w.ctx, w.cancel = context.WithCancel(ctx)
	w.free = context.AfterFunc(c.life, w.cancel)
	return w
}
