package proxy

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/tidwall/gjson"
	"go.uber.org/zap"

	"github.com/dragoman-proxy/dragoman/proxy/config"
	"github.com/dragoman-proxy/dragoman/proxy/mcp"
	"github.com/dragoman-proxy/dragoman/translate/wire"
)

// clashWord begins the names of our tools where they would clash.
const clashWord = "dragoman_"

// clashAge is how long a server that we do not get along with is not asked again.
const clashAge = 30 * time.Second

// clash is what is known of names that the server's tools and those of adapters have
// in common.
type clash struct {
	turn  chan struct{} // held by who looks
	at    time.Time     // when that was last; zero for never
	names []string
}

// heedClash looks, before a session begins, whether tools of adapters have names of
// the server's, unless those may be hidden. The server is asked over a connection of
// its own, since a client's would not be ready yet. The error refuses the session.
func (srv *Server) heedClash(ctx context.Context, h *handshake) error {
	cfg := srv.now().cfg
	if srv.adapters == nil || cfg.Adapters.OnClash == config.ClashShadow || cfg.Upstream.URL == "" && len(cfg.Upstream.Command) == 0 {
		return nil
	}
	c := &srv.clash
	select {
	case c.turn <- struct{}{}:
		defer func() { <-c.turn }()
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	if c.at.IsZero() || len(c.names) > 0 && cfg.Adapters.OnClash == config.ClashFail && time.Since(c.at) > clashAge {
		theirs, err := theirTools(ctx, cfg, h)
		if err != nil {
			h.log().Debug("the server was not asked for the names of its tools", zap.Error(err))
			return nil // the handshake will tell
		}
		c.at, c.names = time.Now(), srv.adapters.among(theirs)
		if len(c.names) > 0 && cfg.Adapters.OnClash == config.ClashPrefix {
			srv.prefixAdapters(c.names)
		}
	}
	if len(c.names) > 0 && cfg.Adapters.OnClash == config.ClashFail {
		return mcp.Fail(mcp.ToolNameCollision, strings.Join(c.names, ", "))
	}
	return nil
}

// theirTools are the names of the server's tools, asked for on behalf of h's client.
func theirTools(ctx context.Context, cfg config.Config, h *handshake) ([]string, error) {
	p, end, err := newInquiry(cfg, AllCapabilities(), zap.NewNop())
	if err != nil {
		return nil, err
	}
	defer end()
	p.h.header = h.header
	if err := p.begin(ctx); err != nil {
		return nil, err
	}
	if err := p.ask(ctx, allLists()[:1]); err != nil {
		return nil, err
	}
	var names []string
	for _, l := range p.lists {
		for _, item := range l.items {
			names = append(names, gjson.Get(item, "name").String())
		}
	}
	return names, nil
}

// among are those of names that a tool of ours has.
func (a *adapters) among(names []string) (both []string) {
	for _, t := range a.Tools() {
		if slices.Contains(names, t.Name) {
			both = append(both, t.Name)
		}
	}
	return both
}

// prefixAdapters gives the tools of adapters other names. Clients that know the old
// ones are told.
func (srv *Server) prefixAdapters(names []string) {
	srv.reloading.Lock()
	defer srv.reloading.Unlock()
	err := srv.adapters.prefix(clashWord)
	if err == nil {
		err = srv.renewOwn()
	}
	if err != nil {
		srv.log.Error("tools of adapters keep names that the server's have", zap.Strings("tools", names), zap.Error(err))
		return
	}
	srv.log.Warn("tools of adapters got other names, since the server's have theirs", zap.Strings("tools", names), zap.String("prefix", clashWord))
}

// clashed is a page of the server's tools on which one has the name of an adapter's,
// though none had when the session began: with other names for ours, or an error.
func (x *exchange) clashed(page []byte, names []string) []byte {
	for _, name := range names {
		x.srv.metrics.shadowed.WithLabelValues(name).Inc()
	}
	if x.srv.now().cfg.Adapters.OnClash == config.ClashPrefix {
		x.srv.prefixAdapters(names)
		return x.srv.now().own.extend(page, x.s.ClientRevision, x.srv.shadowed)
	}
	x.srv.log.Warn("adapter tool names collide with server tools", zap.Strings("tools", names))
	f := mcp.Fail(mcp.ToolNameCollision, strings.Join(names, ", "))
	var m wire.Message
	if m.Scan(page, nil) != nil {
		return page
	}
	return mcp.AppendError(nil, m.ID(), f.Code, f.Text, nil) // the client's id, which may not be the server's
}

// isClash reports whether a tool of an adapter must not stand before one of the
// server's.
func (s *setup) isClash(own ownTools) bool {
	_, adapter := own.(*adapters)
	return adapter && s.cfg.Adapters.OnClash != config.ClashShadow
}
