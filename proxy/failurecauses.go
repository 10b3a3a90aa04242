package proxy

import (
	"bytes"
	"context"
	"errors"
	"fmt"

	"github.com/tidwall/gjson"

	"github.com/dragoman-proxy/dragoman/proxy/downstream"
	"github.com/dragoman-proxy/dragoman/proxy/failures"
	"github.com/dragoman-proxy/dragoman/proxy/upstream"
	"github.com/dragoman-proxy/dragoman/translate"
	"github.com/dragoman-proxy/dragoman/translate/wire"
)

// causeOf is the cause that f is counted by; "" where the server has not failed.
func (srv *Server) causeOf(f *failure, at requestInfo) failures.Cause {
	switch f.cause {
	case upstreamDown, upstreamGarbled, upstreamSilent, upstreamLost, upstreamRestarted, upstreamStarting, upstreamTimeout:
		if isLeaving(f.err) {
			return failures.ClientLeft
		}
	}
	switch f.cause {
	case upstreamDown:
		return failures.Of(f.err)
	case upstreamTimeout:
		return srv.causeOfTimeout(f, at)
	case upstreamGarbled:
		return failures.Malformed
	case upstreamSilent:
		return failures.StreamClosed
	case upstreamLost, upstreamRestarted, upstreamStarting:
		return srv.causeOfLoss(f)
	case upstreamRefused:
		return causeOfRefusal(f, at)
	case untranslatable:
		if _, ok := errors.AsType[*translate.Error](f.err); ok {
			return failures.Untranslatable
		}
	case upstreamVersion:
		return failures.Revision
	case upstreamModern, upstreamLegacy:
		return failures.EraChanged
	case sessionUnknown:
		switch {
		case errors.Is(f.err, errOutlived):
			return failures.EraChanged
		case errors.Is(f.err, errNoNewSession):
			return failures.SessionLost
		}
	case peerLost:
		return failures.ReplicaLost
	}
	if f.full() {
		return failures.Busy
	}
	return ""
}

func (srv *Server) causeOfTimeout(f *failure, at requestInfo) failures.Cause {
	c := failures.Of(f.err)
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
func (srv *Server) causeOfLoss(f *failure) failures.Cause {
	switch c := failures.Of(f.err); c {
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
func causeOfRefusal(f *failure, at requestInfo) failures.Cause {
	status, ok := errors.AsType[*upstream.StatusError](f.err)
	switch {
	case errors.Is(f.err, errHandshakeRefused) && gjson.GetBytes(f.data, "supported").IsArray():
		return failures.Revision
	case errors.Is(f.err, errHandshakeRefused):
		return failures.Refusal
	case !ok: // it is a JSON-RPC error of the server
		return ""
	case status.Code == 404 && at.session != "":
		return failures.SessionLost
	case f.code == methodNotFound, at.server != nil && at.server.Modern && isModernAnswer(status):
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

// limitOf names the settings of the limit that f has run into, with their values.
func (srv *Server) limitOf(f *failure) error {
	cfg := &srv.now().cfg
	switch f.cause {
	case tooManyOpen:
		return fmt.Errorf("limits.open_requests is %d", cfg.Limits.OpenRequests)
	case tooManySessions:
		return fmt.Errorf("session.max is %d, bridge.max_sessions is %d", cfg.Session.Max, cfg.Bridge.MaxSessions)
	case tooManyProcesses:
		return fmt.Errorf("session.max_processes is %d", cfg.Session.MaxProcesses)
	case noRoom:
		return fmt.Errorf("limits.in_hand is %d", cfg.Limits.HeldBytes())
	case tooManyParked:
		return fmt.Errorf("bridge.max_parked is %d", cfg.Bridge.MaxParked)
	}
	return nil
}

// outcome is how a request ended whose client gets f, once it was reported.
func (f *failure) outcome() outcome {
	switch f.why {
	case "":
		if f.cause == panicked {
			return failed
		}
		return refused
	case failures.Busy, failures.Untranslatable:
		return refused
	case failures.ClientLeft:
		return left
	}
	return failed
}

// isLeaving reports whether err says that the client or this process no longer wants an
// answer.
func isLeaving(err error) bool {
	for _, why := range []error{downstream.ErrClientLeft, downstream.ErrOver, downstream.ErrStopped, errTakenUp, errShutdown, upstream.ErrClosed, context.Canceled} {
		if errors.Is(err, why) {
			return true
		}
	}
	return false
}
