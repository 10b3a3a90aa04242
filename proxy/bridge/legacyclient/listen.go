package legacyclient

import (
	"context"

	"github.com/tidwall/gjson"
	"go.uber.org/zap"

	"github.com/dragoman-proxy/dragoman/proxy/upstream"
)

// Listen opens the client's standing stream. It carries updates of the resources that the client has
// subscribed to and, while it is open, list_changed notifications. It replaces an older stream. The
// error is upstream.ErrNoStream when the server offers no notifications.
func (c *Conn) Listen(ctx context.Context, o upstream.ListenOptions) (upstream.Stream, error) {
	if c.life.Err() != nil {
		return nil, upstream.ErrClosed
	}
	if c.shared.stale.Load() {
		c.refresh(ctx)
	}
	header := append([]upstream.Header(nil), o.Header...)
	offers, err := c.offers(ctx, header)
	if err != nil {
		return nil, err
	}
	what := ""
	for _, of := range [...]struct{ capability, filter string }{
		{"tools", "toolsListChanged"}, {"prompts", "promptsListChanged"}, {"resources", "resourcesListChanged"},
	} {
		if gjson.GetBytes(offers, of.capability+".listChanged").Bool() {
			if what != "" {
				what += ","
			}
			what += `"` + of.filter + `":true`
		}
	}
	if what == "" && c.piped == nil && !c.hasTasks() && !gjson.GetBytes(offers, "resources.subscribe").Bool() {
		return nil, upstream.ErrNoStream
	}
	n := &standingStream{of: &c.news, client: ctx, header: header, signal: make(chan struct{}, 1)}
	n.ctx, n.end = context.WithCancel(c.life)
	if c.piped != nil {
		st, err := c.piped.Listen(n.ctx, upstream.ListenOptions{})
		if err != nil {
			n.end()
			return nil, err
		}
		c.host.Spawn(func() { c.copy(st, n) })
	}
	if what != "" {
		l := &listenRequest{c: c, ctx: n.ctx, what: `"notifications":{` + what + `}`, can: c.can, header: header}
		c.host.Spawn(func() {
			if _, err := l.begin(); err != nil {
				c.host.Log.Debug("cannot begin a subscription: it is tried again", zap.Error(err))
			}
			l.run()
		})
	}
	c.news.move(n)
	c.subscribeWanted(header)
	return n, nil
}

// copy forwards the messages of a server on a pipe that belong to no request.
func (c *Conn) copy(st upstream.Stream, to *standingStream) {
	defer st.Close()
	for e, err := range st.Events {
		if err != nil {
			to.end()
			return
		}
		c.enqueue(e.Data, to.header)
	}
}
