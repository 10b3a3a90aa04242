package proxy

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/dragoman-proxy/dragoman/proxy/commands/doctor"
	"github.com/dragoman-proxy/dragoman/proxy/origin/era"
	"github.com/dragoman-proxy/dragoman/proxy/pipes"
	"github.com/dragoman-proxy/dragoman/proxy/pipes/failures"
	"github.com/dragoman-proxy/dragoman/proxy/protocol/mcp"
	"github.com/dragoman-proxy/dragoman/proxy/transport/upstream"
	"github.com/dragoman-proxy/dragoman/translate"
	"github.com/dragoman-proxy/dragoman/translate/wire"
)

// The times after which a server that was not ready at the start is looked for again.
const (
	firstLook = 3 * time.Second
	lastLook  = 24 * time.Second
)

// lookTime bounds a look at a server that is ready.
const lookTime = 5 * time.Second

// lookOut looks at the server at a URL, and again when a reload has changed how it is reached, until ctx ends.
func (srv *Server) lookOut(ctx context.Context) {
	for {
		if srv.awaitServer(ctx) {
			srv.look(ctx)
		}
		select {
		case <-ctx.Done():
			return
		case <-srv.changed:
		}
	}
}

func (srv *Server) notReady(err error) {
	srv.Host.Report.ServerFailed("upstream is not ready", failures.Of(err), err, nil)
}

// awaitServer warns if the server at a URL is not ready, since dragoman connects to it only when a client comes. A server that starts
// at the same time may be ready soon, which is logged. It reports whether the server is ready.
func (srv *Server) awaitServer(ctx context.Context) bool {
	err := srv.Ready()
	if err == nil || ctx.Err() != nil || srv.Host.Draining.Err() != nil {
		return err == nil
	}
	srv.notReady(err)
	for wait := firstLook; wait <= lastLook; wait *= 2 {
		select {
		case <-ctx.Done():
			return false
		case <-time.After(wait):
		}
		if srv.Ready() == nil {
			srv.Host.Log.Info("upstream is ready", zap.String("server", srv.Now().Server))
			return true
		}
	}
	return false
}

// look sends the server a ping before a client comes, and logs what will keep clients from using it. The ping belongs to no session and
// begins none, at a server behind another proxy neither: one that has room for one client has room for the first one.
func (srv *Server) look(ctx context.Context) {
	now := srv.Now()
	if now.Origin.Dialer == nil {
		return
	}
	limited, cancel := context.WithTimeout(ctx, lookTime)
	defer cancel()
	srv.Host.Report.Found("", "") // what was found under an earlier configuration
	err := srv.ping(limited, now.Origin.Dialer)
	if ctx.Err() != nil || srv.Host.Draining.Err() != nil {
		return
	}
	srv.Host.Log.Debug("looked at the server", zap.String("server", now.Server), zap.Error(err))
	if err == nil {
		return
	}
	l, why := srv.explain(limited, err)
	about := []zap.Field{zap.String("server", now.Server), zap.String("cause", string(why)), zap.String("error", l.What), zap.String("advice", l.Do)}
	switch l.Mark {
	case doctor.Fail:
		srv.Host.Log.Warn("upstream cannot be used", about...)
	case doctor.Warn:
		srv.Host.Log.Warn("upstream does not answer", about...)
	case doctor.Info:
		if why == failures.Unauthorized {
			about[3] = zap.String("advice", "clients log in, or bring their own credential; dragoman login "+l.Where+" and upstream.auth: {type: login} for one login for all")
		}
		srv.Host.Log.Info("upstream wants a credential, which clients have to bring", about...)
	}
}

// explain is [doctor.Explain] for the server. What it finds is then said of requests that fail for the same cause.
func (srv *Server) explain(ctx context.Context, err error) (doctor.Line, failures.Cause) {
	now := srv.Now()
	l, why := doctor.Explain(ctx, now.Config, &now.Origin, err, lookTime)
	_, tried, all := strings.Cut(l.What, doctor.NorAt)
	switch {
	case why == failures.TLSPlain && strings.HasPrefix(now.Config.Upstream.URL, "http://"):
		srv.Host.Report.Found(why, "the server speaks TLS at this port: "+l.Do)
	case l.NamesEndpoint() && (why == failures.NotFound || why == failures.NotMCP):
		srv.Host.Report.Found(why, l.Do)
	case why == failures.NotFound && all:
		srv.Host.Report.Found(why, "there is no endpoint at "+tried+" either: "+l.Do)
	}
	return l, why
}

// lookWhenLost makes the first session that finds no endpoint at the server's URL look for one before its client gets the error. Other
// requests that fail meanwhile wait for that, too, until ctx ends.
func (srv *Server) lookWhenLost(ctx context.Context) {
	begun, looked := new(atomic.Bool), make(chan struct{})
	srv.Host.Report.Lost = func() {
		if begun.Swap(true) {
			select {
			case <-looked:
			case <-ctx.Done():
			}
			return
		}
		defer close(looked)
		if d := srv.Now().Origin.Dialer; d != nil {
			limited, cancel := context.WithTimeout(ctx, lookTime)
			defer cancel()
			if err := srv.ping(limited, d); err != nil {
				srv.explain(limited, err)
			}
		}
	}
}

// lookedInto returns a [doctor.FoundError] for an answer of the server at a URL that is none of an MCP server's, or none at all, if a look
// at it finds out more. Other errors, whose text says enough, it returns as they are.
func (srv *Server) lookedInto(ctx context.Context, err error) error {
	now := srv.Now()
	_, answered := errors.AsType[*upstream.StatusError](err)
	_, typed := errors.AsType[*upstream.ContentTypeError](err)
	if now.Origin.Dialer == nil || ctx.Err() != nil || !answered && !typed && failures.Of(err) != failures.StreamClosed {
		return err
	}
	limited, cancel := context.WithTimeout(ctx, 2*lookTime)
	defer cancel()
	if l, _ := doctor.Explain(limited, now.Config, &now.Origin, err, lookTime); l.Mark != doctor.OK {
		return &doctor.FoundError{Found: l, Err: err}
	}
	return err
}

// ping returns why the server at a URL does not answer a ping with a message. A server of HTTP+SSE is not asked: some end when their only
// stream does.
func (srv *Server) ping(ctx context.Context, d *upstream.Dialer) error {
	if d.Transport() == upstream.HTTPWithSSE {
		return nil
	}
	id := []byte(`"dragoman:look"`)
	b := d.HTTP().Unknown().Begun()
	defer pipes.EndBegun(b, srv.Host.Log)
	_, _, err := era.Ask(ctx, &pipes.Opening{Of: srv.Host, Begun: *b, ID: id}, mcp.Request(id, wire.Ping, ""), translate.Latest())
	if _, refused := pipes.RefusalOf(err, id); err == nil || refused == nil {
		return nil
	}
	switch d.Transport() {
	case upstream.HTTPWithSSE: // a session has found that out meanwhile
		return nil
	case upstream.Auto:
		if upstream.TakesNoPost(err) && mayBeStream(srv.Now().Config.Upstream.URL, err) {
			return nil
		}
	}
	return err
}

// mayBeStream reports whether a server that has refused a POST with err may have an event stream of HTTP+SSE at this URL.
func mayBeStream(at string, err error) bool {
	status, refused := errors.AsType[*upstream.StatusError](err)
	u, bad := url.Parse(at)
	return refused && status.Code == http.StatusMethodNotAllowed || bad == nil && strings.HasSuffix(strings.TrimRight(u.Path, "/"), "/sse")
}
