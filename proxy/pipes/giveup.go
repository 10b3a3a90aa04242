package pipes

import (
	"github.com/dragoman-proxy/dragoman/proxy/protocol/idmap"
	"github.com/dragoman-proxy/dragoman/proxy/protocol/mcp"
	"github.com/dragoman-proxy/dragoman/proxy/transport/upstream"
	"github.com/dragoman-proxy/dragoman/translate/wire"
)

// Recall returns what Recall of [Renumbered] returns. The request stays open.
func (l *Streams) Recall(id, reason string, header []mcp.Header) (given string, on upstream.Conn) {
	key := string(wire.AppendIDKey(nil, []byte(id)))
	l.mu.Lock()
	defer l.mu.Unlock()
	e := l.table.Newest(func(e *idmap.Entry[*Stream]) bool { return e.Key == key })
	if e == nil {
		return "", nil
	}
	return l.recall(e, reason, header)
}

// RecallStream is Recall for the request of a stream, where several open requests may have its id.
func (l *Streams) RecallStream(s *Stream, reason string, header []mcp.Header) (given string, on upstream.Conn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.table.Has(s.asked) {
		return "", nil // it was answered, or lost with its process
	}
	return l.recall(s.asked, reason, header)
}

// recall is Recall of an open request. Called with l.mu held.
func (l *Streams) recall(e *idmap.Entry[*Stream], reason string, header []mcp.Header) (given string, on upstream.Conn) {
	if !l.wayOf(e).Cancel(mcp.Cancelled(e.Given, reason), header) {
		return "", nil
	}
	return e.Given, l.conn
}
