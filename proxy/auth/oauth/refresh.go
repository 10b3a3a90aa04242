package oauth

import (
	"context"
	"errors"
	"fmt"
	"net/url"

	"go.uber.org/zap"

	"github.com/dragoman-proxy/dragoman/oauthclient"
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
	form := url.Values{"grant_type": {"refresh_token"}, "refresh_token": {r.Refresh}}
	t, err := a.request(ctx, &r.Authority, &r.Client, r.Resource, form, func() {
		if !r.Sent { // stored before the request, because the process may end before the answer
			r.Sent = true
			save(e, r)
		}
	})
	if err == nil {
		if err = tokenFault(r.Authority.Token, t); err != nil { // the refresh token was answered, and may be gone
			return &SignInError{Server: a.cfg.Server, Args: a.args, Err: err}
		}
		r.take(t, a.now())
		save(e, r)
		return nil
	}
	refused, answered := errors.AsType[*oauthclient.Refusal](err)
	kept := fmt.Errorf("%w; the token is kept", failure(r.Authority.Token, err))
	if !answered {
		return a.later(kept)
	}
	r.Sent = false
	defer save(e, r)
	switch refused.Code {
	case "invalid_grant":
		r.Access, r.Refresh, r.Ended = "", "", refused.Code
		return a.ended(r)
	case "invalid_client", "unauthorized_client":
		r.Access, r.Refresh, r.Ended, r.Client = "", "", refused.Code, client{}
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
