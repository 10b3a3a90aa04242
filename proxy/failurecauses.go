package proxy

import (
	"bytes"
	"context"
	"errors"
	"fmt"

	"github.com/tidwall/gjson"

	"github.com/dragoman-proxy/dragoman/proxy/clienterror"
	"github.com/dragoman-proxy/dragoman/proxy/downstream"
	"github.com/dragoman-proxy/dragoman/proxy/failures"
	"github.com/dragoman-proxy/dragoman/proxy/mcp"
	"github.com/dragoman-proxy/dragoman/proxy/metrics"
	"github.com/dragoman-proxy/dragoman/proxy/upstream"
	"github.com/dragoman-proxy/dragoman/translate"
	"github.com/dragoman-proxy/dragoman/translate/wire"
)

// causeOf is the cause that f is counted by; "" where the server has not failed.
func (srv *Server) causeOf(f *mcp.Failure, at requestInfo) failures.Cause {
	switch f.Cause {
	case mcp.UpstreamDown, mcp.UpstreamGarbled, mcp.UpstreamSilent, mcp.UpstreamLost, mcp.UpstreamRestarted, mcp.UpstreamStarting, mcp.UpstreamTimeout:
		if isLeaving(f.Err) {
			return failures.ClientLeft
		}
	}
	switch f.Cause {
	case mcp.UpstreamDown:
		return failures.Of(f.Err)
	case mcp.UpstreamTimeout:
		return srv.causeOfTimeout(f, at)
	case mcp.UpstreamGarbled:
		return failures.Malformed
	case mcp.UpstreamSilent:
		return failures.StreamClosed
	case mcp.UpstreamLost, mcp.UpstreamRestarted, mcp.UpstreamStarting:
		return srv.causeOfLoss(f)
	case mcp.UpstreamRefused:
		return causeOfRefusal(f, at)
	case mcp.Untranslatable:
		if _, ok := errors.AsType[*translate.Error](f.Err); ok {
			return failures.Untranslatable
		}
	case mcp.UpstreamVersion:
		return failures.Revision
	case mcp.UpstreamModern, mcp.UpstreamLegacy:
		return failures.EraChanged
	case mcp.SessionUnknown:
		switch {
		case errors.Is(f.Err, errOutlived):
			return failures.EraChanged
		case errors.Is(f.Err, errNoNewSession):
			return failures.SessionLost
		}
	case mcp.PeerLost:
		return failures.ReplicaLost
	}
	if f.LimitReached() {
		return failures.Busy
	}
	return ""
}

func (srv *Server) causeOfTimeout(f *mcp.Failure, at requestInfo) failures.Cause {
	c := failures.Of(f.Err)
	if c == failures.TimeoutFirstByte && at.method == wire.Initialize.String() && len(srv.now().cfg.Upstream.Command) > 0 {
		return failures.CommandMute
	}
	switch c {
	case failures.ConnectTimeout, failures.TimeoutSilence, failures.CommandMute:
		return c
	}
	return failures.TimeoutFirstByte
}

// causeOfLoss is why the session with the server was lost.
func (srv *Server) causeOfLoss(f *mcp.Failure) failures.Cause {
	switch c := failures.Of(f.Err); c {
	case failures.CommandExit, failures.SessionLost, failures.CommandNotFound, failures.CommandMute:
		return c
	}
	if len(srv.now().cfg.Upstream.Command) > 0 {
		return failures.CommandExit
	}
	return failures.SessionLost
}

// causeOfRefusal is the cause of an HTTP status. Where the server speaks MCP by it, it has
// answered, and not failed.
func causeOfRefusal(f *mcp.Failure, at requestInfo) failures.Cause {
	status, ok := errors.AsType[*upstream.StatusError](f.Err)
	switch {
	case errors.Is(f.Err, errHandshakeRefused) && gjson.GetBytes(f.Data, "supported").IsArray():
		return failures.Revision
	case errors.Is(f.Err, errHandshakeRefused):
		return failures.Refusal
	case !ok: // it is a JSON-RPC error of the server
		return ""
	case status.Code == 404 && at.session != "":
		return failures.SessionLost
	case f.Code == mcp.CodeMethodNotFound, at.server != nil && at.server.Modern && isModernAnswer(status):
		return ""
	}
	return failures.Of(status)
}

// isModernAnswer reports whether a status of 4xx is how the revisions without a handshake
// carry a JSON-RPC error.
func isModernAnswer(e *upstream.StatusError) bool {
	var m wire.Message
	return (e.Code == 400 || e.Code == 404) && m.Scan(bytes.Clone(e.Body), nil) == nil && m.Kind == wire.Error
}

// limitOf tells the limit that f has run into, with its value.
func (srv *Server) limitOf(f *mcp.Failure) error {
	cfg := &srv.now().cfg
	switch f.Cause {
	case mcp.TooManyOpen:
		return fmt.Errorf("%d requests of this session wait for their answer", cfg.Limits.OpenRequests)
	case mcp.TooManySessions:
		return fmt.Errorf("session.max is %d, bridge.max_sessions is %d", cfg.Session.Max, cfg.Bridge.MaxSessions)
	case mcp.TooManyProcesses:
		return fmt.Errorf("session.max_processes is %d", cfg.Session.MaxProcesses)
	case mcp.NoRoom:
		return fmt.Errorf("limits.in_hand is %d", cfg.Limits.HeldBytes())
	case mcp.TooManyParked:
		return fmt.Errorf("%d parked calls wait for answers of their clients", cfg.Bridge.MaxParked)
	}
	return nil
}

// failureOutcome is how a request ended whose client gets f, once it was reported.
func failureOutcome(f *mcp.Failure) metrics.Outcome {
	switch failures.Cause(f.Why) {
	case "":
		if f.Cause == mcp.Panicked {
			return metrics.Failed
		}
		return metrics.Refused
	case failures.Busy, failures.Untranslatable:
		return metrics.Refused
	case failures.ClientLeft:
		return metrics.Left
	}
	return metrics.Failed
}

// isLeaving reports whether err says that the client or this process no longer wants an
// answer.
func isLeaving(err error) bool {
	for _, why := range []error{downstream.ErrClientLeft, downstream.ErrOver, downstream.ErrStopped, errTakenUp, clienterror.ErrShutdown, upstream.ErrClosed, context.Canceled} {
		if errors.Is(err, why) {
			return true
		}
	}
	return false
}
