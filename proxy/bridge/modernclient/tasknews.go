package modernclient

import (
	"context"

	"github.com/tidwall/gjson"
	"github.com/tidwall/sjson"
	"go.uber.org/zap"

	"github.com/dragoman-proxy/dragoman/proxy/mcp"
	"github.com/dragoman-proxy/dragoman/proxy/outbox"
	"github.com/dragoman-proxy/dragoman/proxy/upstream"
	"github.com/dragoman-proxy/dragoman/translate/wire"
)

// Notifications about tasks for modern clients that subscribe to them. A handshake server
// only notifies that a task has changed its state; dragoman asks for the rest. See
// "Task Status Notifications" in
// https://modelcontextprotocol.github.io/ext-tasks/specification/2026-07-28/tasks.html.

// subscribe subscribes l to these tasks, and returns those whose notifications l's client will receive.
func (t *pooledTasks) subscribe(ctx context.Context, l *subscription, who string, ids []gjson.Result) (list []*pooledTask, err error) {
	switch {
	case len(ids) == 0 || t.br.host.Config().Contract.Tasks != "bridge":
		return nil, nil
	case !l.q.HasTasks():
		return nil, tasksUndeclared()
	}
	for n, id := range ids {
		if id.Type != gjson.String || n >= maxListened {
			continue
		}
		if k := t.find(who, id.String()); k != nil && k.b.startListening(ctx, l.from) {
			k.mu.Lock()
			if k.listeners == nil {
				k.listeners = make(map[*subscription]bool)
			}
			k.listeners[l] = true
			k.mu.Unlock()
			list = append(list, k)
		}
	}
	return list, nil
}

// unsubscribe ends l's subscription to the task.
func (k *pooledTask) unsubscribe(l *subscription) {
	k.mu.Lock()
	defer k.mu.Unlock()
	delete(k.listeners, l)
}

// receiver returns the function that receives the server's notifications about tasks on b.
func (t *pooledTasks) receiver(b *pooledSession) func(notification []byte) {
	return func(notification []byte) {
		k := t.find(b.key.principal, gjson.GetBytes(notification, "params.taskId").String())
		if k == nil || k.b != b {
			return
		}
		k.mu.Lock()
		defer k.mu.Unlock()
		switch {
		case len(k.listeners) == 0 || k.over:
		case k.telling:
			k.again = true
		default:
			k.telling = true
			t.br.host.Spawn(k.notifyAll)
		}
	}
}

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
		var from []upstream.Header
		for l := range k.listeners {
			from = l.from
		}
		k.again = false
		k.mu.Unlock()
		ctx, cancel := context.WithTimeout(k.b.life, k.br.host.Config().Upstream.HandshakeTimeout)
		news, err := k.statusNotification(ctx, from)
		cancel()
		if err != nil {
			k.br.host.Log.Debug("cannot subscribe to the state of a task", zap.Error(err))
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
			l.box.Put(outbox.Message{Body: subscribed(news, l.q.ID)})
		}
	}
	last = !k.again || k.over
	k.telling = !last
	return last
}

// statusNotification returns a notification of the task's current state.
func (k *pooledTask) statusNotification(ctx context.Context, from []upstream.Header) ([]byte, error) {
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
