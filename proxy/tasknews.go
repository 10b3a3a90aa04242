package proxy

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

// News of tasks for clients without a session that listen for them. A server with
// sessions only says that a task is in another state; what belongs to that, it is
// asked. See "Task Status Notifications" in
// https://modelcontextprotocol.github.io/ext-tasks/specification/2026-07-28/tasks.html.

// subscribe is which of these tasks l's client will be told of.
func (t *pooledTasks) subscribe(ctx context.Context, l *subscription, who string, ids []gjson.Result) (list []*pooledTask, err error) {
	switch {
	case len(ids) == 0 || t.srv.now().cfg.Contract.Tasks != "bridge":
		return nil, nil
	case !l.q.hasTasks():
		return nil, tasksUndeclared()
	}
	for n, id := range ids {
		if id.Type != gjson.String || n >= maxListened {
			continue
		}
		if k := t.find(who, id.String()); k != nil && k.b.startListening(ctx, t.srv, l.from) {
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

// unsubscribe ends that.
func (k *pooledTask) unsubscribe(l *subscription) {
	k.mu.Lock()
	defer k.mu.Unlock()
	delete(k.listeners, l)
}

// hears is who hears what the server says on b of its tasks.
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
			t.srv.spawn(k.notifyAll)
		}
	}
}

// tellAll tells those who listen how the task is, until there is nothing new.
func (k *pooledTask) notifyAll() {
	told := false
	defer func() {
		if !told { // by a panic: the next news is told again
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
		ctx, cancel := context.WithTimeout(k.b.life, k.srv.now().cfg.Upstream.HandshakeTimeout)
		news, err := k.statusNotification(ctx, from)
		cancel()
		if err != nil {
			k.srv.log.Debug("cannot subscribe to the state of a task", zap.Error(err))
		}
		if told = k.notify(news); told {
			return
		}
	}
}

// tell tells those who listen, nil for nothing, and reports whether nothing is newer
// than that: the telling is over then.
func (k *pooledTask) notify(news []byte) (last bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for l := range k.listeners {
		if news != nil {
			l.box.Put(outbox.Message{Body: subscribed(news, l.q.id)})
		}
	}
	last = !k.again || k.over
	k.telling = !last
	return last
}

// news is the notification of how the task is now.
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

// tasksUndeclared is the answer to a client that asks about tasks and has not
// declared the extension.
func tasksUndeclared() *mcp.Failure {
	f := mcp.Fail(mcp.CapabilityMissing, "")
	f.Data = []byte(`{"requiredCapabilities":{"extensions":{"` + tasksExtension + `":{}}}}`)
	return f
}
