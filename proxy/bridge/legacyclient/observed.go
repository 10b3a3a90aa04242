package legacyclient

import (
	"slices"

	"github.com/dragoman-proxy/dragoman/proxy/metrics"
	"github.com/dragoman-proxy/dragoman/proxy/observe"
	"github.com/dragoman-proxy/dragoman/translate"
	"github.com/dragoman-proxy/dragoman/translate/wire"
)

// This file tells package observe of the notifications that belong to no call. The proxy sees them when the client gets them,
// and asks Conn.Seen what they were made of.

// Observe sets what begins the observation of a message of the server outside of any call, and returns nil if nothing observes
// it. It must be called before the first use.
func (c *Conn) Observe(begin func(raw []byte) (*observe.Call, observe.Copy)) { c.seeing = begin }

// Seen returns the observation of a notification that the standing stream has given, or nil.
func (c *Conn) Seen(text []byte) *observe.Call { return c.news.observed(text) }

// seenNews is a notification that is observed; call is nil if nothing observes it.
type seenNews struct {
	call *observe.Call
	kept observe.Copy
}

// observe begins the observation of a notification, before translation changes it.
func (c *Conn) observe(m *wire.Message) (s seenNews) {
	if c.seeing != nil {
		s.call, s.kept = c.seeing(m.Raw)
	}
	return s
}

// translated adds the notification as it came. out is what the client gets; nil for nothing.
func (s *seenNews) translated(c *Conn, m *wire.Message, out []byte) {
	if s.call == nil {
		return
	}
	s.call.Came(observe.Message{
		Edge: observe.ServerEdge, Direction: observe.ToClient, Copy: s.kept, Losses: slices.Clone(m.Losses),
		Why: observe.Why{Translator: c.down, Known: translate.Known{Facts: c.facts}},
	})
	if out == nil {
		s.call.End(string(metrics.Local), "")
	}
}
