package modernclient

import (
	"context"
	"slices"
	"time"

	"go.uber.org/zap"

	"github.com/dragoman-proxy/dragoman/proxy/bridge"
	"github.com/dragoman-proxy/dragoman/proxy/mcp"
	"github.com/dragoman-proxy/dragoman/proxy/upstream"
	"github.com/dragoman-proxy/dragoman/translate/wire"
)

// inputs returns the task's questions that wait for an answer, as a JSON object, or nil if there are
// none. Since the questions come on the stream of the task's result, inputs asks for that
// result if no request for it is open, and waits for the questions up to questionTime.
func (k *pooledTask) inputs(ctx context.Context, from []upstream.Header) []byte {
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
		if any || waited && first && k.answeredAll() {
			return out
		}
		select {
		case <-changed:
			pause := time.NewTimer(k.br.host.Config().Bridge.Coalesce) // more questions may follow
			select {
			case <-pause.C:
			case <-ctx.Done():
			}
			pause.Stop()
		case <-timer.C:
			return nil
		case <-ctx.Done():
			return nil
		}
	}
}

// answeredAll reports whether there were questions and all of them are answered: the server may still be
// processing the answers.
func (k *pooledTask) answeredAll() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.asked.count > 0 && len(k.asked.open) == 0
}

// add adds questions of the server. It refuses those that are more than bridge.MaxQuestions.
func (k *pooledTask) add(list []bridge.Question) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, q := range list {
		if k.asked.room() == 0 {
			k.br.host.Spawn(func() { k.b.refuse([]bridge.Question{q}, nil) })
			continue
		}
		k.asked.add(q)
	}
	close(k.changed)
	k.changed = make(chan struct{})
}

// update sends the server the answers to its open questions. Other inputs are ignored.
func (k *pooledTask) update(inputs []byte, from []upstream.Header) {
	k.mu.Lock()
	answered, answers, left := k.asked.match(inputs)
	k.asked.open = left
	k.mu.Unlock()
	for n, p := range answered {
		k.b.deliverOrLog(mcp.AppendResult(nil, p.ID, answers[n]), from)
	}
}

// listen asks for the result of the task in order to receive the questions that the server sends on that
// stream. The result itself is dropped, and asked for again when the client wants it.
func (k *pooledTask) listen(from []upstream.Header) {
	ctx, stop := context.WithCancelCause(k.b.life)
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
	k.br.host.Spawn(func() {
		defer func() {
			stop(nil)
			k.mu.Lock()
			k.stop = nil
			k.mu.Unlock()
		}()
		if err := k.read(ctx, stop, from); err != nil && ctx.Err() == nil {
			k.br.host.Log.Debug("cannot read the result of a task", zap.Error(err))
		}
	})
}

// read reads the stream of the task's result to its end.
func (k *pooledTask) read(ctx context.Context, stop context.CancelCauseFunc, from []upstream.Header) error {
	id := k.b.nextID()
	st, err := k.b.s.Send(ctx, &upstream.Outgoing{Body: mcp.Request(id, wire.TasksResult, k.params()), Request: true, Header: from, Silence: bridge.MaxQuiet})
	if err != nil {
		return err
	}
	crossing := k.b.crossing()
	crossing.Lacks, crossing.Own = nil, &bridge.OwnRequest{ID: id}
	x := k.b.s.Begin(ctx, stop, from, crossing, nil)
	defer x.Done()
	x.Read(st)
	_, err = x.Answer(&taskListener{bystander{k.b, x, from}, k})
	return err
}

// taskListener is the [bridge.Client] of the request for a task's result.
type taskListener struct {
	bystander
	k *pooledTask
}

// Ask implements [bridge.Client]: the questions are the task's.
func (l *taskListener) Ask(list []bridge.Question) { l.k.add(list) }

// route gives the questions that name a task of b to that task, and returns the others.
func (t *pooledTasks) route(b *pooledSession, list []bridge.Question) (others []bridge.Question) {
	for _, q := range list {
		if q.Task != "" {
			if k := t.find(b.key.principal, q.Task); k != nil && k.b == b {
				k.add([]bridge.Question{q})
				continue
			}
		}
		others = append(others, q)
	}
	return others
}
