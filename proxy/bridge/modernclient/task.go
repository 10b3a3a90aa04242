package modernclient

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/tidwall/gjson"
	"github.com/tidwall/sjson"
	"go.uber.org/zap"

	"github.com/dragoman-proxy/dragoman/proxy/bytes/large"
	"github.com/dragoman-proxy/dragoman/proxy/bytes/quota"
	"github.com/dragoman-proxy/dragoman/proxy/ops/losses"
	"github.com/dragoman-proxy/dragoman/proxy/pipes"
	"github.com/dragoman-proxy/dragoman/proxy/protocol/crossing"
	"github.com/dragoman-proxy/dragoman/proxy/protocol/mcp"
	"github.com/dragoman-proxy/dragoman/proxy/transport/upstream"
	"github.com/dragoman-proxy/dragoman/translate/wire"
)

// pooledTask is a task at a handshake server.
type pooledTask struct {
	key taskKey
	by  quota.Holder
	b   *pooledSession // in use until the task is forgotten

	held *large.Holding // counts the task and its open questions

	mu      sync.Mutex
	expires time.Time
	endless bool // the task has no ttl
	asked   pendingQuestions
	changed chan struct{}      // closed when the next question comes
	stop    context.CancelFunc // cancels the request for the task's result; nil if there is none
	over    bool
	shared  bool // the result was stored for other replicas, or is being stored

	listeners map[*listener]bool
	telling   bool // notifyAll is running
	again     bool // notifyAll must send the state once more
}

type taskKey struct{ principal, id string }

// params returns the params of a request that only names the task.
func (k *pooledTask) params() []byte {
	return append(wire.AppendQuoted([]byte(`{"taskId":`), k.key.id), '}')
}

// ask sends the server a request about the task. The caller owns the result; the error may be the
// server's own.
func (k *pooledTask) ask(ctx context.Context, method wire.Method, from []mcp.Header) ([]byte, error) {
	return k.b.inquire(ctx, method, k.params(), from)
}

// cancel cancels the task at the server. It is no error if the task has already ended.
func (k *pooledTask) cancel(ctx context.Context, from []mcp.Header) error {
	_, err := k.ask(ctx, wire.TasksCancel, from)
	if fault, ok := errors.AsType[*mcp.ServerError](err); ok && fault.Failure().Code == mcp.CodeInvalidParams {
		return nil
	}
	return err
}

// questionTime is how long a client that asks for the state waits for the questions.
const questionTime = 2 * time.Second

// inputs returns the task's questions that wait for an answer, as a JSON object, or nil if there are
// none. Since the questions come on the stream of the task's result, inputs asks for that
// result if no request for it is open, and waits for the questions up to questionTime.
func (k *pooledTask) inputs(ctx context.Context, from []mcp.Header) []byte {
	timer := time.NewTimer(questionTime)
	defer timer.Stop()
	k.listen(from)
	for first := true; ; first = false {
		k.mu.Lock()
		changed, any, waited := k.changed, len(k.asked.open) > 0, k.asked.count > 0
		var out []byte
		if any {
			out = append(k.asked.appendTo([]byte{'{'}), '}')
		}
		k.mu.Unlock()
		if any || waited && first { // if all are answered, the server may still be processing the answers
			return out
		}
		select {
		case <-changed:
			_ = pipes.Sleep(ctx, k.b.Host.Config().Bridge.Coalesce) // more questions may follow
		case <-timer.C:
			return nil
		case <-ctx.Done():
			return nil
		}
	}
}

// add adds questions of the server. It refuses those that are more than bridge.MaxQuestions.
func (k *pooledTask) add(list []crossing.Question) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, q := range list {
		if k.asked.room() == 0 || k.held.Keep(len(q.Body)) != nil {
			k.b.Host.Spawn(func() { k.b.refuse([]crossing.Question{q}, unattached, nil) })
			continue
		}
		k.asked.add(q)
	}
	close(k.changed)
	k.changed = make(chan struct{})
}

// withdraw removes a question that the server has cancelled, if it is one of the task.
func (k *pooledTask) withdraw(question string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, p := range k.asked.open {
		if string(p.ID) == question {
			k.held.Drop(len(p.Body))
		}
	}
	k.asked.open = k.asked.without(question)
}

// update sends the server the answers to its open questions. Other inputs are ignored.
func (k *pooledTask) update(inputs []byte, from []mcp.Header) {
	k.mu.Lock()
	answered, answers, left := k.asked.match(inputs)
	k.asked.open = left
	for _, p := range answered {
		k.held.Drop(len(p.Body))
	}
	k.mu.Unlock()
	for n, p := range answered {
		k.b.deliverOrLog(&p.Question, mcp.AppendResult(nil, p.ID, answers[n]), from)
	}
}

// listen asks for the result of the task in order to receive the questions that the server sends on that
// stream. The result itself is dropped, and asked for again when the client wants it.
func (k *pooledTask) listen(from []mcp.Header) {
	ctx, stop := context.WithCancelCause(&k.b.life)
	k.mu.Lock()
	running := k.stop != nil || k.over
	if !running {
		k.stop = func() { stop(upstream.ErrClosed) }
	}
	k.mu.Unlock()
	if running {
		stop(nil)
		return
	}
	from = slices.Clone(from)
	k.b.Host.Spawn(func() {
		defer func() {
			stop(nil)
			k.mu.Lock()
			k.stop = nil
			k.mu.Unlock()
		}()
		if err := k.read(ctx, stop, from); err != nil && ctx.Err() == nil {
			k.b.Host.Log.Debug("cannot read the result of a task", zap.Error(err))
		}
	})
}

// read reads the stream of the task's result to its end.
func (k *pooledTask) read(ctx context.Context, stop context.CancelCauseFunc, from []mcp.Header) error {
	id := k.b.nextID()
	st, err := k.b.s.Send(ctx, &upstream.Outgoing{Body: mcp.Request(id, wire.TasksResult, k.params()), Request: true, Header: from, Silence: crossing.MaxQuiet})
	if err != nil {
		return err
	}
	c := k.b.crossing()
	c.Lacks, c.Own = nil, &crossing.OwnRequest{ID: id}
	x := k.b.s.Begin(ctx, stop, from, c, nil)
	defer x.Done()
	x.Read(st)
	_, err = x.Answer(&taskListener{bystander{k.b, x, from}, k})
	return err
}

// taskListener is the [crossing.Client] of the request for a task's result.
type taskListener struct {
	bystander
	k *pooledTask
}

// Ask implements [crossing.Client]: the questions are the task's.
func (l *taskListener) Ask(list []crossing.Question) { l.k.add(list) }

// state returns the task's state from the server, with its result or its open questions.
func (k *pooledTask) state(ctx context.Context, from []mcp.Header) ([]byte, error) {
	state, err := k.ask(ctx, wire.TasksGet, from)
	if err != nil {
		return nil, err
	}
	switch gjson.GetBytes(state, "status").String() {
	case "completed", "failed":
		return k.withResult(ctx, state, from)
	case "input_required":
		if inputs := k.inputs(ctx, from); inputs != nil {
			return sjson.SetRawBytes(state, "inputRequests", inputs)
		}
		return sjson.SetBytes(state, "status", "working") // there is no question to answer yet
	}
	return state, nil
}

// withResult adds the task's result, or its error, to the state.
func (k *pooledTask) withResult(ctx context.Context, state []byte, from []mcp.Header) ([]byte, error) {
	result, err := k.ask(ctx, wire.TasksResult, from)
	if fault, ok := errors.AsType[*mcp.ServerError](err); ok {
		if state, err = sjson.SetBytes(state, "status", "failed"); err != nil {
			return nil, err
		}
		return sjson.SetRawBytes(state, "error", fault.Raw)
	}
	if err != nil {
		return nil, err
	}
	return sjson.SetRawBytes(state, "result", result)
}

// clientResult translates a result of the server about the task for its client.
func (k *pooledTask) clientResult(id []byte, method wire.Method, result []byte, from []mcp.Header) ([]byte, error) {
	about, down := k.b.s.About(), k.b.s.Down()
	var m wire.Message
	if err := m.Scan(mcp.AppendResult(nil, id, result), down.Shape()); err != nil {
		return nil, err
	}
	m.Method, m.Facts, m.Stamp = method, about.Facts, &wire.Stamp{ServerInfo: k.b.said.server}
	out, _, err := down.Rewrite(nil, &m)
	k.b.Host.Losses.Note(losses.Peers{From: about.ServerRevision, To: about.ClientRevision, Client: losses.NameOf(about.ClientInfo)}, method, m.Losses, from)
	return out, err
}

// unsubscribe ends l's subscription to the task.
func (k *pooledTask) unsubscribe(l *listener) {
	k.mu.Lock()
	defer k.mu.Unlock()
	delete(k.listeners, l)
}

// Notifications about tasks for modern clients that subscribe to them. A handshake server
// only notifies that a task has changed its state; dragoman asks for the rest. See
// "Task Status Notifications" in
// https://modelcontextprotocol.github.io/ext-tasks/specification/2026-07-28/tasks.html.

// notifyAll sends the task's state to its subscriptions, until there is nothing new.
func (k *pooledTask) notifyAll() {
	told := false
	defer func() {
		if !told { // after a panic: the next notification starts notifyAll again
			k.mu.Lock()
			k.telling = false
			k.mu.Unlock()
		}
	}()
	for {
		k.mu.Lock()
		var from []mcp.Header
		for l := range k.listeners {
			from = l.from
		}
		k.again = false
		k.mu.Unlock()
		ctx, cancel := context.WithTimeout(&k.b.life, k.b.Host.Config().Upstream.HandshakeTimeout)
		news, err := k.statusNotification(ctx, from)
		cancel()
		if err != nil {
			k.b.Host.Log.Debug("cannot subscribe to the state of a task", zap.Error(err))
		}
		if told = k.notify(news); told {
			return
		}
	}
}

// notify sends news, if it is not nil, to the task's subscriptions. It reports whether the task has not
// changed since: then notifyAll ends.
func (k *pooledTask) notify(news []byte) (last bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for l := range k.listeners {
		if news != nil {
			l.hear(news)
		}
	}
	last = !k.again || k.over
	k.telling = !last
	return last
}

// statusNotification returns a notification of the task's current state.
func (k *pooledTask) statusNotification(ctx context.Context, from []mcp.Header) ([]byte, error) {
	state, err := k.state(ctx, from)
	if err != nil {
		return nil, err
	}
	body, err := k.clientResult([]byte("0"), wire.TasksGet, state, from)
	if err != nil {
		return nil, err
	}
	params := []byte(gjson.GetBytes(body, "result").Raw)
	for _, not := range [...]string{"resultType", "_meta"} {
		if params, err = sjson.DeleteBytes(params, not); err != nil {
			return nil, err
		}
	}
	return mcp.Notification(wire.TasksNotified, params), nil
}
