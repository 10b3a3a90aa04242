package proxy

import (
	"context"
	"errors"
	"net/http"

	"go.uber.org/zap"

	"github.com/dragoman-proxy/dragoman/proxy/auth/oauthrelay"
	"github.com/dragoman-proxy/dragoman/proxy/pipes/failures"
	"github.com/dragoman-proxy/dragoman/proxy/transport/downstream"
	"github.com/dragoman-proxy/dragoman/proxy/transport/upstream"
)

// oauthClients answers the requests that OAuth clients send to the server's origin.
type oauthClients struct{ srv *Server }

func (o oauthClients) Serves(ctx context.Context, base, path string) bool {
	if r := o.srv.Now().Relay; r != nil {
		return r.Serves(ctx, base, path)
	}
	return oauthrelay.IsMetadata(path)
}

func (o oauthClients) Serve(req *downstream.Request, resp *downstream.Response) {
	now := o.srv.Now()
	if now.Relay == nil {
		why := "there is no authorization server here: this proxy runs its server as a local command, or serves adapters only"
		switch {
		case now.Config.Upstream.AtSocket():
			why = "there is no authorization server here, because the server is at a unix socket: configure a token in the client, if it wants one"
		case now.Config.Upstream.URL != "":
			why = "there is no authorization server here, because oauth.relay is none: configure a token in the client"
		}
		oauthrelay.Say(resp, http.StatusNotFound, why)
		return
	}
	err := now.Relay.Serve(req, resp)
	if _, refused := errors.AsType[*oauthrelay.MismatchError](err); refused {
		o.srv.mismatches.do(func() {
			o.srv.Host.Log.Warn("clients will refuse the server's OAuth metadata", zap.String("server", now.Server), zap.Error(err))
		})
	} else if _, refused := errors.AsType[*oauthrelay.CopyError](err); refused {
		o.srv.copies.do(func() {
			o.srv.Host.Log.Warn("clients of 2025-03-26 get no copy of the authorization server's metadata", zap.String("server", now.Server), zap.Error(err))
		})
	} else if err != nil {
		o.srv.Host.Report.ServerFailed("cannot forward the OAuth request of a client to the server", failures.Of(err), err, nil)
		return
	}
	o.srv.SignIns.CountRelayed(req.Path, resp.Status)
	o.srv.Host.Log.Debug("OAuth request of a client forwarded to the server", zap.String("method", req.Method), zap.Int("status", resp.Status))
}

// wantsLogin returns an *oauthrelay.LoginError if err is the server's 401 over HTTP, else err.
func (srv *Server) wantsLogin(ctx context.Context, err error) error {
	status, ok := errors.AsType[*upstream.StatusError](err)
	r := srv.Now().Relay
	if !ok || status.Code != http.StatusUnauthorized || r == nil {
		return err
	}
	e := &oauthrelay.LoginError{Err: err, Challenge: status.Challenges()}
	if l, err := r.Inspect(ctx, e.Challenge); err == nil {
		e.Login = l
	}
	return e
}
