package proxy

import (
	"context"
	"strings"
	"time"

	"github.com/tidwall/gjson"
	"go.uber.org/zap"

	"github.com/dragoman-proxy/dragoman/proxy/config"
	"github.com/dragoman-proxy/dragoman/proxy/mcp"
	"github.com/dragoman-proxy/dragoman/translate/wire"
)

// clashAge is how long a server that we do not get along with is not asked again.
const clashAge = 30 * time.Second

// clash is what is known of names that the server's tools and those of adapters have
// in common.
type nameCollision struct {
	turn  chan struct{} // held by who looks
	at    time.Time     // when that was last; zero for never
	names []string
}

// heedClash looks, before the client knows of its session, whether tools of adapters have
// names of the server's, unless those may be hidden. The error refuses the session.
func (h *handshake) checkCollisions(ctx context.Context, s *session) error {
	srv := h.srv
	if srv.adapters == nil || srv.now().cfg.Adapters.OnClash == config.ClashShadow || !s.Facts.Has(wire.ServerTools) {
		return nil
	}
	c := &srv.clash
	select {
	case c.turn <- struct{}{}:
		defer func() { <-c.turn }()
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	if c.at.IsZero() || len(c.names) > 0 && time.Since(c.at) > clashAge {
		theirs, err := h.readTools(ctx, s)
		if err != nil {
			h.log().Debug("cannot read the names of the server's tools", zap.Error(err))
			return nil // who lists them will be told
		}
		c.at, c.names = time.Now(), srv.adapters.collisions(theirs)
	}
	if len(c.names) > 0 {
		return mcp.Fail(mcp.ToolNameCollision, strings.Join(c.names, ", "))
	}
	return nil
}

// among are the names of tools that a tool of ours has, too.
func (a *adapters) collisions(tools [][]byte) (both []string) {
	names := make(map[string]bool, len(tools))
	for _, t := range tools {
		names[gjson.GetBytes(t, "name").String()] = true
	}
	for _, t := range a.Tools() {
		if names[t.Name] {
			both = append(both, t.Name)
		}
	}
	return both
}

// clashed is a page of the server's tools on which one has the name of an adapter's,
// though none had when the session began: an error.
func (x *exchange) hideCollisions(page []byte, names []string) []byte {
	for _, name := range names {
		x.srv.metrics.Shadowed.WithLabelValues(name).Inc()
	}
	x.srv.host.Log.Warn("adapter tool names collide with server tools", zap.Strings("tools", names))
	f := mcp.Fail(mcp.ToolNameCollision, strings.Join(names, ", "))
	var m wire.Message
	if m.Scan(page, nil) != nil {
		return page
	}
	return mcp.AppendError(nil, m.ID(), f.Code, f.Text, nil) // the client's id, which may not be the server's
}

// isClash reports whether a tool of an adapter must not stand before one of the
// server's.
func (s *setup) collides(own ownTools) bool {
	_, adapter := own.(*adapters)
	return adapter && s.cfg.Adapters.OnClash != config.ClashShadow
}
