package observe

import (
	"bytes"
	"slices"

	"github.com/dragoman-proxy/dragoman/translate/wire"
)

// summary is what is kept of the messages of a call when too many calls come at once: what its row needs. Messages in which
// something is asked, or which say that something failed, are kept besides.
type summary struct {
	messages int
	size     RowSize
	kind     [3]wire.Kind // of the message that came in last, by direction
	more     *summaryMore // nil for most calls
}

type summaryMore struct {
	losses []wire.Loss
	by     []string
	tokens RowSize
}

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
	if n.By != "" && !slices.Contains(more.by, n.By) {
		more.by = append(more.by, n.By)
	}
	if n.TokensBefore > 0 {
		more.tokens = RowSize{n.TokensBefore, n.TokensAfter}
	}
}
