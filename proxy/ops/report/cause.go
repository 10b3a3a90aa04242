package report

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/tidwall/gjson"

	"github.com/dragoman-proxy/dragoman/proxy/config"
	"github.com/dragoman-proxy/dragoman/proxy/ops/metrics"
	"github.com/dragoman-proxy/dragoman/proxy/pipes/failures"
	"github.com/dragoman-proxy/dragoman/proxy/protocol/mcp"
	"github.com/dragoman-proxy/dragoman/proxy/transport/downstream"
	"github.com/dragoman-proxy/dragoman/proxy/transport/upstream"
	"github.com/dragoman-proxy/dragoman/translate"
	"github.com/dragoman-proxy/dragoman/translate/wire"
)

// CauseOf returns the cause that a failure is counted by under this configuration; "" if the server has not failed.
func CauseOf(cfg *config.Config, f *mcp.Failure, at At) failures.Cause {
	switch f.Cause {
	case mcp.UpstreamDown, mcp.UpstreamGarbled, mcp.UpstreamSilent, mcp.UpstreamLost, mcp.UpstreamRestarted, mcp.UpstreamStarting, mcp.UpstreamTimeout:
		if isLeaving(f.Err) {
			return failures.ClientLeft
		}
	}
	switch f.Cause {
	case mcp.UpstreamDown:
		return failures.Of(f.Err)
	case mcp.NoCredential:
		return failures.NoCredential
	case mcp.UpstreamTimeout:
		return causeOfTimeout(cfg, f, at)
	case mcp.UpstreamGarbled:
		if _, printed := errors.AsType[*upstream.SpreadError](f.Err); printed {
			return failures.CommandMute
		}
		return failures.Malformed
	case mcp.UpstreamSilent:
		return failures.StreamClosed
	case mcp.UpstreamLost, mcp.UpstreamRestarted, mcp.UpstreamStarting:
		return CauseOfLoss(cfg, f)
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
		case errors.Is(f.Err, ErrEraChanged):
			return failures.EraChanged
		case errors.Is(f.Err, ErrNoNewSession):
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

func causeOfTimeout(cfg *config.Config, f *mcp.Failure, at At) failures.Cause {
	c := failures.Of(f.Err)
	if c == failures.TimeoutFirstByte && at.Method == wire.Initialize.String() && len(cfg.Upstream.Command) > 0 {
		return failures.CommandMute
	}
	switch c {
	case failures.ConnectTimeout, failures.TimeoutSilence, failures.CommandMute, failures.WebProxy:
		return c
	}
	return failures.TimeoutFirstByte
}

// CauseOfLoss returns why the session with the server was lost.
func CauseOfLoss(cfg *config.Config, f *mcp.Failure) failures.Cause {
	switch c := failures.Of(f.Err); c {
	case failures.CommandExit, failures.CommandUnread, failures.SessionLost, failures.CommandNotFound, failures.CommandMute:
		return c
	}
	if len(cfg.Upstream.Command) > 0 {
		return failures.CommandExit
	}
	return failures.SessionLost
}

// causeOfRefusal returns the cause of an HTTP status. If the status is how MCP carries an error, the
// server has answered, and not failed.
func causeOfRefusal(f *mcp.Failure, at At) failures.Cause {
	status, ok := errors.AsType[*upstream.StatusError](f.Err)
	switch {
	case errors.Is(f.Err, ErrHandshakeRefused) && gjson.GetBytes(f.Data, "supported").IsArray():
		return failures.Revision
	case errors.Is(f.Err, ErrHandshakeRefused):
		return failures.Refusal
	case !ok: // a JSON-RPC error of the server
		return ""
	case status.Code == 404 && at.Session != "":
		return failures.SessionLost
	case f.Code == mcp.CodeMethodNotFound, at.Server != nil && at.Server.ErrorStatuses && isAnswer(status):
		return ""
	}
	return failures.Of(status)
}

// isAnswer reports whether the refusal is a JSON-RPC error, with a status that revisions with ErrorStatuses have for it.
func isAnswer(e *upstream.StatusError) bool {
	var m wire.Message
	return (e.Code == 400 || e.Code == 404) && m.Scan(bytes.Clone(e.Body), nil) == nil && m.Kind == wire.Error
}

// limitOf returns an error that names the limit that f has reached, with its value.
func limitOf(cfg *config.Config, f *mcp.Failure) error {
	switch f.Cause {
	case mcp.TooManyOpen:
		return fmt.Errorf("%d requests of this session are open, which is the limit", cfg.Limits.OpenRequests)
	case mcp.TooManySessions:
		return fmt.Errorf("session.max is %d, bridge.max_sessions is %d", cfg.Session.Max, cfg.Bridge.MaxSessions)
	case mcp.TooManyProcesses:
		return fmt.Errorf("session.max_processes is %d", cfg.Session.MaxProcesses)
	case mcp.NoRoom:
		return fmt.Errorf("limits.in_hand is %d", cfg.Limits.HeldBytes())
	case mcp.TooManyParked:
		return fmt.Errorf("%d parked calls wait for their clients, which is the limit", cfg.Bridge.MaxParked)
	}
	return nil
}

// Outcome returns the outcome of a request whose client gets f. f must have been reported.
func Outcome(f *mcp.Failure) metrics.Outcome {
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

// FaultOf returns what metrics say of a request whose client gets f. f must have been reported.
func FaultOf(f *mcp.Failure) metrics.Fault {
	if f.Cause == mcp.Panicked {
		return metrics.Fault{Cause: failures.Panic, Code: f.Code}
	}
	return metrics.Fault{Cause: failures.Cause(f.Why), Code: f.Code}
}

// isLeaving reports whether err says that the client has left or dragoman is stopping.
func isLeaving(err error) bool {
	over := []error{downstream.ErrClientLeft, downstream.ErrOver, downstream.ErrStopped, ErrTakenUp, ErrShutdown, upstream.ErrClosed, context.Canceled}
	return slices.ContainsFunc(over, func(why error) bool { return errors.Is(err, why) })
}
