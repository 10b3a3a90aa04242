package owntools

import (
	"context"
	"slices"

	"github.com/dragoman-proxy/dragoman/proxy/features/shape"
	"github.com/dragoman-proxy/dragoman/transform"
)

// WithMore returns all, and the source of the tool that reads the rest of a cut result if s has one.
func WithMore(all []Source, s *shape.Shaping) []Source {
	if s == nil || s.Engine.MoreTool() == nil {
		return all
	}
	return append(slices.Clip(all), more{s.Engine})
}

// ServesAlone reports whether c has tools that are of use without the server: that which reads the rest of a cut result is of none.
func (c *Catalog) ServesAlone() bool {
	return c != nil && slices.ContainsFunc(c.all, func(s Source) bool { _, only := s.(more); return !only })
}

// more serves the tool that reads the rest of a cut result. It implements [Source].
type more struct{ engine *transform.Engine }

func (more) Grants() []string { return nil }

func (m more) Tools(string) []Tool {
	return []Tool{{m.engine.MoreName(), m.engine.MoreTool()}}
}

func (m more) Call(ctx context.Context, c *Call) ([]byte, error) {
	return c.Answer(ctx, m.engine.More(ctx, c.Session, c.Caller, c.Arguments))
}

func (more) Instructions(string) string { return "" }

// EndSession does nothing: what is kept is bound to the session and expires by itself.
func (more) EndSession(string) {}
