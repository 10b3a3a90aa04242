package proxy

import (
	"context"
	"net/http"
	"net/url"

	"go.uber.org/zap"

	"github.com/dragoman-proxy/dragoman/proxy/config"
	"github.com/dragoman-proxy/dragoman/proxy/downstream"
	"github.com/dragoman-proxy/dragoman/proxy/failures"
	"github.com/dragoman-proxy/dragoman/proxy/oauthrelay"
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
	if err := now.relay.Serve(req, resp); err != nil {
		o.srv.failing("request of an OAuth client was not relayed to the server", failures.Of(err), err, nil)
		return
	}
	o.srv.log.Debug("request of an OAuth client relayed", zap.String("method", req.Method), zap.Int("status", resp.Status))
}
