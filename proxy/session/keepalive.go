package session

import (
	"context"
	"errors"
	"time"

	"github.com/dragoman-proxy/dragoman/proxy/ops/report"
	"github.com/dragoman-proxy/dragoman/proxy/protocol/mcp"
	"github.com/dragoman-proxy/dragoman/translate/wire"
)

// pingTime is how long the answer to a ping may take.
const pingTime = 10 * time.Second

// KeepAlive sends the server a ping whenever nothing was sent for upstream.keepalive, until the session ends. That is no use of the
// session. A server without a handshake gets none. It must be called once, when the session is complete.
func (s *Session) KeepAlive() {
	every := s.Table.Now().Config.Upstream.KeepAlive
	if every > 0 && !s.ServerRevision.Modern && !s.Serverless {
		s.pinger = time.AfterFunc(time.Hour, s.mayPing)
		s.pinger.Reset(every)
	}
}

// mayPing pings the server if it is idle.
func (s *Session) mayPing() {
	h, every := s.Table.Host, s.Table.Now().Config.Upstream.KeepAlive
	if every == 0 || h.Serving.Err() != nil || s.over.Load() {
		return
	}
	switch idle := time.Since(time.Unix(0, s.Used.Load())); {
	case idle < every:
		s.pinger.Reset(every - idle)
		return
	case !s.Open.None():
		s.pinger.Reset(every)
		return
	}
	h.Spawn(func() {
		defer s.pinger.Reset(every)
		ctx, cancel := context.WithTimeout(h.Serving, pingTime)
		defer cancel()
		id := mcp.OwnID()
		_, err := s.Ask(ctx, NewCall(id, wire.Ping), s.Direct.Own(id, wire.Ping, "", s.Authorization()), nil)
		if _, answered := errors.AsType[*mcp.ServerError](err); err != nil && !answered && h.Serving.Err() == nil && !s.over.Load() {
			h.Report.FailedAs("server has not answered a ping (upstream.keepalive)", err, report.At{Method: wire.Ping.String(), Client: s.ClientRevision, Server: s.ServerRevision, Session: s.Named})
		}
	})
}
