package oauth

import (
	"context"
	"errors"
	"fmt"
	"net/http/httptrace"

	"go.uber.org/zap"
	"golang.org/x/oauth2"
)

// renew returns the stored tokens. If stale says that they cannot be used, it renews them first;
// one process does so at a time, and the others read what it stored. With keep, it returns a token
// that has not expired if the authorization server fails.
func (a *Account) renew(ctx context.Context, stale func(*record) bool, keep bool) (r record, err error) {
	// The answer may hold the only refresh token that is still good: it is read to its end, also
	// if the request that needed a token is gone.
	ctx = context.WithoutCancel(ctx)
	locked := a.store.Locked(ctx, a.id, func(e Entry) {
		if r, err = load(e); err != nil || !stale(&r) || r.Refresh == "" {
			if err == nil && r.Ended != "" {
				err = a.ended(&r)
			}
			return
		}
		a.mu.Lock()
		if a.now().Sub(a.at) < refreshPause {
			err = a.failed
		}
		a.mu.Unlock()
		if err == nil {
			err = a.refresh(ctx, e, &r)
			a.cfg.Count.token("refresh_token", err)
		}
	})
	if locked != nil { // the old token, while it lives
		a.mu.Lock()
		r, err = a.live, locked
		a.mu.Unlock()
	}
	_, ended := errors.AsType[*SignInError](err)
	if err != nil && keep && !ended && r.Access != "" && !r.over(a.now()) {
		a.log.Warn("cannot renew the token for the server: the old one is used until it expires", zap.String("server", a.cfg.Server), zap.Error(err))
		err = nil
	}
	if err == nil {
		a.mu.Lock()
		a.live = r
		a.mu.Unlock()
	}
	return r, err
}

// refresh replaces the tokens of a record by means of its refresh token.
func (a *Account) refresh(ctx context.Context, e Entry, r *record) error {
	a.useConfigured(&r.Client, &r.Authority)
	ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{GotConn: func(httptrace.GotConnInfo) {
		if !r.Sent { // stored before the request, because the process may end before the answer
			r.Sent = true
			save(e, r)
		}
	}})
	t, err := a.oauth2(r).TokenSource(a.tokenContext(ctx, &r.Authority, &r.Client, r.Resource), &oauth2.Token{RefreshToken: r.Refresh}).Token()
	if err == nil {
		if err = tokenFault(r.Authority.Token, t); err != nil { // the refresh token was answered, and may be gone
			return &SignInError{Server: a.cfg.Server, Args: a.args, Err: err}
		}
		r.take(t, a.now())
		save(e, r)
		return nil
	}
	refused, answered := errors.AsType[*oauth2.RetrieveError](err)
	kept := fmt.Errorf("%w; the token is kept", failure(r.Authority.Token, err))
	if !answered {
		return a.later(kept)
	}
	r.Sent = false
	defer save(e, r)
	switch refused.ErrorCode {
	case "invalid_grant":
		r.Access, r.Refresh, r.Ended = "", "", refused.ErrorCode
		return a.ended(r)
	case "invalid_client", "unauthorized_client":
		r.Access, r.Refresh, r.Ended, r.Client = "", "", refused.ErrorCode, client{}
		return a.ended(r)
	}
	return a.later(kept)
}

// later notes that a refresh has failed, so that not every request tries another one.
func (a *Account) later(err error) error {
	a.mu.Lock()
	a.failed, a.at = err, a.now()
	a.mu.Unlock()
	return err
}

// ended returns the error for a record without tokens.
func (a *Account) ended(r *record) error {
	e := &SignInError{Server: a.cfg.Server, Args: a.args}
	if r.Ended != "" {
		e.Err = errors.New(r.Ended)
	}
	return e
}

// oauth2 returns what golang.org/x/oauth2 needs to know of a record.
func (a *Account) oauth2(r *record) *oauth2.Config {
	return &oauth2.Config{
		ClientID: r.Client.ID, ClientSecret: r.Client.Secret, RedirectURL: r.Client.Redirect, Scopes: r.Scopes,
		Endpoint: oauth2.Endpoint{AuthURL: r.Authority.Authorization, TokenURL: r.Authority.Token, AuthStyle: r.Client.style()},
	}
}
