package handshake

import (
	"context"
	"strings"
	"time"

	"go.uber.org/zap"

	"github.com/dragoman-proxy/dragoman/proxy/config"
	"github.com/dragoman-proxy/dragoman/proxy/protocol/mcp"
	"github.com/dragoman-proxy/dragoman/proxy/session"
	"github.com/dragoman-proxy/dragoman/translate/wire"
)

// clashAge is how long a found name collision is remembered before the server is asked again.
const clashAge = 30 * time.Second

// checkCollisions checks, before the client receives the response to initialize, whether adapter
// tools and server tools have equal names. It does nothing if adapters.on_clash is shadow. An error
// refuses the session.
func (h *Handshake) checkCollisions(ctx context.Context, s *session.Session) error {
	opener := h.Opener
	if opener.Adapters == nil || opener.Now().Config.Adapters.OnClash == config.ClashShadow || !s.Facts.Has(wire.ServerTools) {
		return nil
	}
	c := &opener.clash
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
			return nil // hideCollisions reports a collision when the client lists the tools
		}
		c.at, c.names = time.Now(), opener.Adapters.Collisions(theirs)
	}
	if len(c.names) > 0 {
		return mcp.Fail(mcp.ToolNameCollision, strings.Join(c.names, ", "))
	}
	return nil
}
