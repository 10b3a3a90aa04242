package observe

import (
	"bytes"
	"time"

	"github.com/tidwall/gjson"

	"github.com/dragoman-proxy/dragoman/translate/wire"
)

func (s *summary) needs() *summaryMore {
	if s.more == nil {
		s.more = new(summaryMore)
	}
	return s.more
}

// add adds a message of c, which has not ended. c.mu is held.
func (s *summary) add(c *Call, m *Message) {
	if c.ended {
		return
	}
	s.messages++
	if m.cameIn() {
		s.kind[m.Direction] = m.Kind
	}
	s.size.add(c, m)
	if len(m.Losses) > 0 {
		more := s.needs()
		more.losses = append(more.losses, m.Losses...)
	}
}

// add notes the size of a message of c, if it is the one whose size the row shows: the response to a request, else the
// message itself.
func (s *RowSize) add(c *Call, m *Message) {
	if (!m.Kind.Response() || m.Direction != ToClient) && (c.Kind.Response() || c.Kind == wire.Request) {
		return
	}
	out := m.Edge == ClientEdge && m.Direction == ToClient || m.Edge == ServerEdge && m.Direction == ToServer
	if out {
		s.After = m.Size
	}
	if m.cameIn() || out && s.Before == 0 && m.From == nil {
		s.Before = m.Size
	}
}

// summary returns what there is of a call that is only summarized. It does not change after the end.
func (c *Call) summary() (s summary) {
	if c.short {
		c.mu.Lock()
		defer c.mu.Unlock()
		if s = c.sum; s.more != nil {
			more := *s.more
			s.more = &more
		}
	}
	return s
}

// ready returns for how many messages a call has memory.
func (c *Call) ready() int {
	if c.short {
		return 0
	}
	return maxReady
}

// cameIn reports whether the message came in at its edge.
func (m *Message) cameIn() bool { return (m.Edge == ClientEdge) == (m.Direction == ToServer) }

// wants reports whether a message is kept although the call is only summarized. c.mu is held.
func (c *Call) wants(m *Message) bool {
	switch {
	case m.Kind == 0, m.Status != 0:
		return true
	case m.Direction == ToClient:
		return m.Kind == wire.Request || m.Edge == ClientEdge && tells(m.Raw)
	}
	return m.Kind.Response() || m.Edge == ClientEdge && c.sum.messages > 1 // the first one is what the row says
}

// Texts in messages that are kept.
var (
	failing = []byte(`rror"`) // "error" or "isError"
	waiting = []byte(`input_required`)
)

// tells reports whether a message may say that something failed, or ask for something.
func tells(raw []byte) bool {
	return len(raw) <= longMessage && (bytes.Contains(raw, failing) || bytes.Contains(raw, waiting))
}

// summarized adds what became of a message to the summary, without a copy of it. It returns false if it has to be kept.
func (c *Call) summarized(m *Message, raw []byte) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	m.Kind = c.sum.kind[m.Direction]
	if m.Kind == 0 || m.Direction == ToClient && m.Edge == ClientEdge && tells(raw) || c.wants(m) {
		return false
	}
	c.sum.add(c, m)
	c.clock(m)
	return true
}

// noteShort is Note for a call that is only summarized.
func (c *Call) noteShort(n *Note) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ended {
		return
	}
	more := c.sum.needs()
	if n.By != "" {
		more.by = with(more.by, n.By)
	}
	if n.TokensBefore > 0 {
		more.tokens = RowSize{n.TokensBefore, n.TokensAfter}
	}
}

// clock notes when the message passed, and whether the call waits for the server or the client from then on. c.mu is held.
func (c *Call) clock(m *Message) {
	switch {
	case m.Edge == ServerEdge && m.Direction == ToServer:
		c.wait(&c.timing.Server, m.At)
	case m.asks():
		c.wait(&c.timing.Client, m.At)
	case m.Edge == ClientEdge && m.Direction == ToClient && m.Kind.Response():
		c.wait(nil, m.At)
		if c.short {
			return // its end has the timing
		}
		if m.Timing = &c.answered; c.replied {
			m.Timing = new(Timing)
		}
		c.replied = true
		*m.Timing = c.timed(m.At)
	case m.Edge == ServerEdge && m.Kind == wire.Notification:
		// The server says that it is still at work.
	case m.Edge == ClientEdge && m.Direction == ToClient:
	default:
		c.wait(nil, m.At)
	}
}

// wait ends the wait under way, and begins another one; spent is nil if dragoman itself is at work. c.mu is held.
func (c *Call) wait(spent *time.Duration, now time.Time) {
	if c.spent != nil && now.After(c.since) {
		*c.spent += now.Sub(c.since)
	}
	c.spent, c.since = spent, now
}

// timed returns where the time went until now. c.mu is held.
func (c *Call) timed(now time.Time) Timing {
	t := c.timing
	t.Proxy = max(0, now.Sub(c.Began)-t.Client-t.Server)
	return t
}

// asks reports whether the message asks the client something: it is a request of the server, or a result of which the client
// has to do something for its request to go on.
func (m *Message) asks() bool {
	if m.Edge != ClientEdge || m.Direction != ToClient {
		return false
	}
	if m.Kind != wire.Result {
		return m.Kind == wire.Request
	}
	switch wire.MethodOf([]byte(m.Method)) {
	case wire.ToolsCall, wire.PromptsGet, wire.ResourcesRead: // no other result asks for input
		return bytes.Contains(m.Raw, []byte("input_required")) && gjson.GetBytes(m.Raw, "result.resultType").Str == "input_required"
	}
	return false
}
