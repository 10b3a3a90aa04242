package session

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/dragoman-proxy/dragoman/proxy/observe"
	"github.com/dragoman-proxy/dragoman/proxy/ops/metrics"
	"github.com/dragoman-proxy/dragoman/proxy/ops/report"
	"github.com/dragoman-proxy/dragoman/proxy/origin/era"
	"github.com/dragoman-proxy/dragoman/proxy/pipes"
	"github.com/dragoman-proxy/dragoman/proxy/pipes/failures"
	"github.com/dragoman-proxy/dragoman/proxy/protocol/mcp"
	"github.com/dragoman-proxy/dragoman/proxy/transport/downstream"
	"github.com/dragoman-proxy/dragoman/proxy/transport/upstream"
)

// Forget drops a session that can no longer be used, and ends it. It does not wait.
func (t *Table) Forget(s *Session, why error) {
	t.Drop(s)
	t.Retire(s, why)
}

// Retire ends what this process holds of a session. The session at the server is ended only if it is local
// to this process or its id has expired: otherwise the client may resume it. It does not wait.
func (t *Table) Retire(s *Session, why error) {
	if s.Local || t.Now().Sealer.Expired(s.Made, time.Now()) {
		t.Host.Spawn(func() { t.End(s, why) })
		return
	}
	s.Release(why)
}

// End ends every open request of s with the error why, and closes its connection. It waits for the server, at most
// [pipes.EndTimeout], or as [host.Host.Ending] says.
func (t *Table) End(s *Session, why error) {
	if s.Piped {
		t.EndWithin(pipes.EndTimeout, s, why)
		return
	}
	ctx, cancel := t.Host.Ending()
	defer cancel()
	s.end(ctx, pipes.EndTimeout, why, t.Host.Log)
}

// EndWithin is End that waits at most for this time until the server has ended the session.
func (t *Table) EndWithin(limit time.Duration, s *Session, why error) {
	ctx, cancel := context.WithTimeout(context.Background(), pipes.EndTimeout)
	defer cancel()
	s.end(ctx, limit, why, t.Host.Log)
}

// EndConn closes a connection that no session came of. It waits like End.
func (t *Table) EndConn(c upstream.Conn) { pipes.End(c, t.Host.Log) }

// endReason says in words why a session has ended.
func endReason(why error) string {
	if f := report.FailureOf(why); f.Cause == mcp.SessionUnknown { // which that is need not be said
		return strings.TrimPrefix(f.Text, mcp.Fail(f.Cause, "").Text+": ")
	}
	if errors.Is(why, downstream.ErrStopped) { // its text is about dragoman as a server
		why = report.ErrShutdown
	}
	return report.Reason(why)
}

// countSession counts a session that has ended because of why.
func (t *Table) countSession(s *Session, why error) {
	if s.Direct != nil {
		return // there are no sessions
	}
	t.dropPipe(s)
	if t.Observer.Watched() {
		t.Observer.Session(observe.Session{Ended: true, Made: s.Made, Peers: *s.Peers(), Why: endReason(why)})
	}
	ended := metrics.Session{Client: s.ClientRevision, Server: s.ServerRevision, Began: s.Made}
	if s.Principal != "" {
		ended.Client = nil // it is a session for clients without sessions
	}
	if s.Unheld || s.Bridge != nil {
		ended.Server = nil // the server knows no session of this client
	}
	f := report.FailureOf(why)
	if f.Cause != mcp.SessionUnknown {
		ended.Cause = report.CauseOf(&t.Now().Config, f, report.At{})
	}
	if ended.Cause == failures.ClientLeft {
		ended.Cause = ""
	}
	t.Metrics.SessionEnded(ended)
}

// GiveUpAs sends the server notifications/cancelled for the request with this id. It does not wait.
func (t *Table) GiveUpAs(s *Session, id string, header []mcp.Header, reason string) {
	conn := s.Conn
	if s.Recall != nil { // translated now, as the id may later be that of another request
		if id, conn = s.Recall(id, reason, header); conn == nil {
			return
		}
	}
	t.SendCancelled(s, conn, id, header, reason)
}

// SendCancelled sends the server notifications/cancelled on a connection of s, for the request that the server knows by id. It
// does not wait, but the end of s does.
func (t *Table) SendCancelled(s *Session, conn upstream.Conn, id string, header []mcp.Header, reason string) {
	s.notices.Begin()
	t.Host.SendCancelled(conn, id, header, reason, s.notices.End)
}

// Outlives returns the error that ends s if err, with which the server has refused a message with these headers, says that the
// server no longer has sessions. Else it returns err.
func (t *Table) Outlives(ctx context.Context, s *Session, header []mcp.Header, err error) error {
	if s.Bridge != nil || s.Piped || s.ID == "" && s.Pipe == 0 || !era.Doubtful(false, err) {
		return err
	}
	if t.Eras.Changed(ctx, header, false, err) {
		return era.Outlived()
	}
	return err
}

// Overdue is the reason in the cancellation of a call that took too long. See
// https://modelcontextprotocol.io/specification/2025-11-25/basic/lifecycle#timeouts.
const Overdue = "timed out"

// EndCall counts a request of a client that has ended, and ends its spans and its observation.
func (t *Table) EndCall(c *Call, o *metrics.Operation) {
	t.Metrics.Request(o)
	c.More.Span.End(string(o.Outcome), string(o.Fault.Cause))
	c.More.Seen.End(string(o.Outcome), string(o.Fault.Cause))
}
