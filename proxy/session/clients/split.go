package clients

import (
	"errors"
	"fmt"

	"github.com/dragoman-proxy/dragoman/proxy/bridge/stateless"
	"github.com/dragoman-proxy/dragoman/proxy/ops/report"
	"github.com/dragoman-proxy/dragoman/proxy/protocol/mcp"
	"github.com/dragoman-proxy/dragoman/proxy/session"
	"github.com/dragoman-proxy/dragoman/translate"
	"github.com/dragoman-proxy/dragoman/translate/wire"
)

// Item is one element of a client's batch.
type Item struct {
	Raw     []byte
	Refusal *mcp.Failure // the error that it gets; nil for a message to send to the server
	Slot    int          // the index of its response in the reply; -1 if it gets none
}

// Split splits the batch in body, and returns how many responses are owed. s is nil if the
// client has not sent initialize yet.
func (p *Proxy) Split(s *session.Session, body []byte) (items []Item, slots int, err error) {
	most := p.Now().Config.Limits.Batch
	elements, err := wire.AppendElements(nil, body, most)
	switch {
	case errors.Is(err, wire.ErrTooMany):
		return nil, 0, mcp.Fail(mcp.BatchTooLong, fmt.Sprintf("%d are allowed", most))
	case err != nil && s != nil:
		return nil, 0, s.Up.ScanError(new(wire.Message), err)
	case err != nil:
		return nil, 0, err
	case len(elements) == 0:
		return nil, 0, mcp.Fail(mcp.BatchEmpty, "")
	}
	items = make([]Item, len(elements))
	seen := make(map[string]bool)
	modern := ""
	var m wire.Message
	for i, raw := range elements {
		it := &items[i]
		*it = Item{Raw: raw, Slot: -1}
		switch err := m.Scan(raw, nil); {
		case err != nil && raw[0] != '{':
			it.Refusal = mcp.Fail(mcp.BatchElement, "")
		case err != nil && s != nil:
			it.Refusal = report.FailureOf(s.Up.ScanError(&m, err))
		case err != nil:
			it.Refusal = report.FailureOf(err)
		case m.Kind == wire.Request && m.Method == wire.Initialize:
			return nil, 0, mcp.Fail(mcp.BatchInitialize, "")
		case m.Kind == wire.Request:
			if s == nil && stateless.IsModern(&m) {
				modern = translate.Modern()
			}
			key := string(wire.AppendIDKey(nil, m.ID()))
			if seen[key] {
				it.Refusal = mcp.Fail(mcp.BatchDuplicate, "").About(m.ID())
			}
			seen[key] = true
			if f := NeedsSession(&m); s != nil && s.Pooled && f != nil {
				it.Refusal = f
			}
		}
		if it.Refusal != nil || m.Kind == wire.Request {
			it.Slot = slots
			slots++
		}
	}
	switch {
	case s == nil && modern != "":
		return nil, 0, NoBatches(modern)
	case s == nil:
		return nil, 0, NotInitialized()
	case !takesBatches(s.ClientRevision):
		return nil, 0, NoBatches(s.ClientRevision.Name)
	}
	return items, slots, nil
}

// NoBatches returns the error for a batch from a client of a revision without batches.
func NoBatches(revision string) *mcp.Failure {
	f := mcp.Fail(mcp.BatchRefused, "")
	f.Text += " in " + revision
	return f
}

// takesBatches reports whether clients of the revision r may send batches: r has them, or is older
// than the revision that has.
func takesBatches(r *translate.Revision) bool {
	for _, at := range translate.Handshake() { // newest first
		if at.Batches {
			return at == r || at.Newer(r)
		}
	}
	return false
}
