package proxy

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/dragoman-proxy/dragoman/proxy/config"
	"github.com/dragoman-proxy/dragoman/proxy/downstream"
	"github.com/dragoman-proxy/dragoman/proxy/failures"
	"github.com/dragoman-proxy/dragoman/proxy/oauthrelay"
	"github.com/dragoman-proxy/dragoman/proxy/upstream"
)

// newRelay is what relays for OAuth clients; nil where there is no server to ask.
func newRelay(cfg config.Config) (*oauthrelay.Relay, error) {
	u := cfg.Upstream
	if u.URL == "" || cfg.OAuth.Relay == "none" {
		return nil, nil
	}
	at, err := url.Parse(u.URL)
	if err != nil {
		return nil, nil // the origin says so
	}
	secured, err := upstreamTLS(u)
	if err != nil {
		return nil, err
	}
	return oauthrelay.New(oauthrelay.Config{
		Server: at, Path: cfg.Path, Metadata: cfg.OAuth.Relay == "metadata", Paths: cfg.OAuth.Paths, Forwarded: cfg.OAuth.Forwarded,
		TLS: secured, Proxy: webProxy, DialTimeout: u.ConnectTimeout,
	}), nil
}

// oauthClients serves what OAuth clients ask of the server's origin.
type oauthClients struct{ srv *Server }

func (o oauthClients) Serves(ctx context.Context, base, path string) bool {
	if r := o.srv.now().relay; r != nil {
		return r.Serves(ctx, base, path)
	}
	return oauthrelay.IsMetadata(path)
}

func (o oauthClients) Serve(req *downstream.Request, resp *downstream.Response) {
	now := o.srv.now()
	if now.relay == nil {
		why := "no authorization here: the server behind this proxy is a local command, or there is none"
		if now.cfg.Upstream.URL != "" {
			why = "no authorization here: oauth.relay is none; configure the client with a token, or ask the server behind this proxy directly"
		}
		oauthrelay.Say(resp, http.StatusNotFound, why)
		return
	}
	err := now.relay.Serve(req, resp)
	if _, refused := errors.AsType[*oauthrelay.MismatchError](err); refused {
		o.srv.mismatches.do(func() {
			o.srv.host.Log.Warn("OAuth clients will refuse the server's metadata", zap.String("server", now.server), zap.Error(err))
		})
	} else if err != nil {
		o.srv.host.Report.ServerFailed("request of an OAuth client was not relayed to the server", failures.Of(err), err, nil)
		return
	}
	o.srv.host.Log.Debug("request of an OAuth client relayed", zap.String("method", req.Method), zap.Int("status", resp.Status))
}

// tellEvery is how long what operators are told holds, before they are told again.
const tellEvery = 10 * time.Minute

// seldom lets something be told now and then.
type rateLimit struct {
	mu   sync.Mutex
	last time.Time
}

func (s *rateLimit) do(say func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if now := time.Now(); now.Sub(s.last) >= tellEvery {
		s.last = now
		say()
	}
}

// LoginError is the error of [Probe] where the server wants a login.
type LoginError struct {
	Challenge []string          // of the server's 401
	Login     *oauthrelay.Login // what its metadata says; nil where that could not be read
	Err       error
}

func (e *LoginError) Error() string { return e.Err.Error() }
func (e *LoginError) Unwrap() error { return e.Err }

// wantsLogin is a *LoginError where the server has refused us with 401 over HTTP, else err.
func (srv *Server) wantsLogin(ctx context.Context, err error) error {
	status, ok := errors.AsType[*upstream.StatusError](err)
	r := srv.now().relay
	if !ok || status.Code != http.StatusUnauthorized || r == nil {
		return err
	}
	e := &LoginError{Err: err, Challenge: status.Challenges()}
	if l, err := r.Inspect(ctx, e.Challenge); err == nil {
		e.Login = l
	}
	return e
}
