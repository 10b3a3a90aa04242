package session

import (
	"context"
	"errors"
	"time"

	"github.com/dragoman-proxy/dragoman/proxy/ops/report"
	"github.com/dragoman-proxy/dragoman/proxy/pipes"
	"github.com/dragoman-proxy/dragoman/proxy/protocol/mcp"
	"github.com/dragoman-proxy/dragoman/proxy/transport/upstream"
	"github.com/dragoman-proxy/dragoman/translate/wire"
)

// keepAlive is what pings the server of a session. See upstream.keepalive.
type keepAlive struct {
	timer *time.Timer // nil if nothing does
	last  time.Time   // when the last ping was sent
}

// pingTime is how long the answer to a ping may take.
const pingTime = 10 * time.Second

// KeepAlive sends the server a ping whenever nothing was sent for upstream.keepalive, until the session ends. That is no use of the
// session. A server without a handshake gets none. It must be called once, when the session is complete.
func (s *Session) KeepAlive() {
	every := s.Table.Now().Config.Upstream.KeepAlive
	if every > 0 && !s.ServerRevision.Modern && !s.Serverless {
		s.keep.timer = time.AfterFunc(time.Hour, s.mayPing)
		s.keep.timer.Reset(every)
	}
}

// mayPing pings the server if it is idle.
func (s *Session) mayPing() {
	h, every := s.Table.Host, s.Table.Now().Config.Upstream.KeepAlive
	if every == 0 || h.Serving.Err() != nil || s.over.Load() || s.ID != "" && s.Table.Held(s.ID) != s {
		return
	}
	used := time.Unix(0, s.Used.Load())
	if used.Before(s.keep.last) {
		used = s.keep.last
	}
	switch idle := time.Since(used); {
	case idle < every:
		s.keep.timer.Reset(every - idle)
		return
	case !s.Open.None():
		s.keep.timer.Reset(every)
		return
	}
	s.keep.last = time.Now()
	h.Spawn(func() {
		defer s.keep.timer.Reset(every)
		err := s.ping(h.Serving)
		if _, answered := errors.AsType[*mcp.ServerError](err); err != nil && !answered && h.Serving.Err() == nil && !s.over.Load() {
			h.Report.FailedAs("server has not answered a ping (upstream.keepalive)", err, report.At{Method: wire.Ping.String(), Client: s.ClientRevision, Server: s.ServerRevision, Session: s.Named})
		}
	})
}

// ping sends the server a ping, and waits for the answer.
func (s *Session) ping(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, pingTime)
	defer cancel()
	id := []byte(`"dragoman:keepalive"`)
	c := NewCall(id, wire.Ping)
	c.More.Here, c.More.Answers = true, make(chan []byte, 1)
	if err := s.Open.Add(c); err != nil {
		return err
	}
	defer s.Open.End(c)
	o := &upstream.Outgoing{Body: mcp.Request(id, wire.Ping, "{}"), Request: true, Repeats: true, Ours: true, FirstByte: pingTime, Silence: pingTime}
	if s.Web != nil {
		o.Header = s.Web.Authorization()
	}
	st, err := s.Conn.Send(ctx, o)
	switch {
	case err != nil:
		return err
	case st != nil:
		_, err = pipes.Answer(ctx, st, id, nil)
		return err
	}
	select { // a server on a pipe sends the response with all its other messages
	case answer := <-c.More.Answers:
		_, err = pipes.ResultIn(answer)
		return err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
