package legacyclient

import (
	"bytes"
	"slices"

	"github.com/dragoman-proxy/dragoman/proxy/observe"
	"github.com/dragoman-proxy/dragoman/proxy/ops/metrics"
	"github.com/dragoman-proxy/dragoman/proxy/protocol/mcp"
	"github.com/dragoman-proxy/dragoman/translate"
	"github.com/dragoman-proxy/dragoman/translate/wire"
)

// passDown translates a notification of the server. It returns nil if the client gets nothing.
func (c *Conn) passDown(m *wire.Message, header []mcp.Header) []byte {
	if m.Kind != wire.Notification {
		c.host.Report.Dropped("request") // servers of this revision have none
		return nil
	}
	if m.Method == wire.ToolsListChanged {
		c.tools.Forget()
	}
	c.bridge.results.Heard(m)
	method := m.Method
	m.Facts = c.facts
	out, v, err := c.down.Rewrite(nil, m)
	c.host.Losses.Note(c.lossPeers(c.down), method, m.Losses, header)
	if err != nil {
		c.host.Report.Untranslated(err, header)
		return nil
	}
	if v != wire.Forward {
		return nil
	}
	return out
}

// appendOpened appends to list the notifications that end the URL elicitations with these ids.
func (c *Conn) appendOpened(list, opened [][]byte, header []mcp.Header) [][]byte {
	for _, id := range opened {
		var m wire.Message
		body := mcp.Notification(wire.ElicitationCompleted, `{"elicitationId":`+wire.View(id)+`}`)
		if m.Scan(body, c.down.Shape()) == nil {
			if out := c.passDown(&m, header); out != nil {
				list = append(list, out)
			}
		}
	}
	return list
}

// downResult translates a result of the server to the response to a request of this method.
func (c *Conn) downResult(id []byte, method wire.Method, result []byte, header []mcp.Header) ([]byte, error) {
	var m wire.Message
	if err := m.Scan(mcp.AppendResult(nil, id, result), c.down.Shape()); err != nil {
		return nil, err
	}
	m.Method, m.Facts = method, c.facts
	out, v, err := c.down.Rewrite(nil, &m)
	c.host.Losses.Note(c.lossPeers(c.down), method, m.Losses, header)
	if err == nil && v != wire.Forward {
		err = mcp.Saying(mcp.CodeInternal, "Unsupported result of "+method.String())
	}
	return out, err
}

// Observe sets what begins the observation of a message of the server outside of any call, and returns nil if nothing observes
// it. The proxy sees the message when the client gets it, and asks Seen what it was made of. Observe must be called before the
// first use.
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

// enqueue translates a notification of the server and puts it on the standing stream. raw may be used again.
func (c *Conn) enqueue(raw []byte, header []mcp.Header) {
	var m wire.Message
	if m.Scan(raw, c.down.Shape()) != nil {
		c.host.Report.Dropped("malformed")
		return
	}
	seen := c.observe(&m)
	m.Room = -1 // raw is the server's stream's, which overwrites it
	out := c.passDown(&m, header)
	seen.translated(c, &m, out)
	switch {
	case out == nil:
		return
	case !m.Edited():
		out = bytes.Clone(out)
	}
	c.put(out, seen.call)
}

// tell puts notifications of dragoman's own, which tell of a gap, on the standing stream. They need no translation.
func (c *Conn) tell(list [][]byte) {
	for _, m := range list {
		if !c.news.tell(bytes.Clone(m)) {
			c.host.Report.Dropped("queue_full")
		}
	}
}

func (c *Conn) put(text []byte, seen *observe.Call) {
	for range c.news.put(text, seen) {
		c.host.Report.Dropped("queue_full")
	}
}
