package credential

import (
	"context"
	"fmt"
	"reflect"
	"strings"

	"github.com/dragoman-proxy/dragoman/adapterrt/clean"
	"github.com/dragoman-proxy/dragoman/adapterrt/failure"
	"github.com/dragoman-proxy/dragoman/adapterrt/file"
	"github.com/dragoman-proxy/dragoman/adapterrt/httpcall"
)

// Carry takes over the token of the adapter's previous version, if their auth blocks are equal.
func (s *Signer) Carry(before *Signer) {
	if s.session != nil && before.session != nil && reflect.DeepEqual(s.adapter.Auth, before.adapter.Auth) {
		s.session = before.session
	}
}

// token returns the adapter's token and the secrets that belong to it. It replaces a token
// that equals stale.
func (s *Signer) token(ctx context.Context, stale string) (token, secrets, *failure.Failure) {
	t := s.session
	t.mu.Lock()
	if t.live.text != "" && t.live.text != stale && s.keeper.Now().Before(t.live.renew) {
		defer t.mu.Unlock()
		return t.live, secrets{t.live.text}, nil
	}
	fl := t.flight
	if fl == nil {
		fl = &flight{done: make(chan struct{})}
		t.flight = fl
		old := t.live
		if old.text == stale {
			old = token{}
		}
		ctx := context.WithoutCancel(ctx)
		s.keeper.flights.Go(func() { s.fly(ctx, fl, old, stale) })
	}
	t.mu.Unlock()
	select {
	case <-fl.done:
		return fl.token, append(secrets{fl.token.text}, fl.secrets...), fl.failure
	case <-ctx.Done():
		return token{}, nil, &failure.Failure{Code: failure.TransportTimeout, Message: "Request cancelled", Cause: failure.ErrCancelled}
	}
}

// fly fetches a token and ends the flight. If that fails, old stays in use until it expires.
func (s *Signer) fly(ctx context.Context, fl *flight, old token, stale string) {
	defer func() {
		if p := recover(); p != nil {
			fl.failure = failure.Ours("", fmt.Errorf("getting a token panicked: %s", clean.MaskSecrets(fmt.Sprint(p))))
		}
		now := s.keeper.Now()
		if fl.failure != nil && old.text != "" && now.Before(old.expires) {
			old.renew = now.Add(retryPause)
			fl.token, fl.failure = old, nil
		}
		t := s.session
		t.mu.Lock()
		if fl.failure == nil {
			t.live = fl.token
		}
		t.flight = nil
		t.mu.Unlock()
		close(fl.done)
	}()
	ctx, stop := context.WithTimeout(ctx, flightTime)
	defer stop()
	switch {
	case s.command != nil:
		fl.token, fl.secrets, fl.failure = s.commanded(ctx)
	case s.adapter.Auth.OAuth.Rotates():
		fl.token, fl.secrets, fl.failure = s.refreshed(ctx, stale)
	default:
		fl.token, fl.secrets, fl.failure = s.granted(ctx)
	}
}

// granted requests a token with a grant that needs no refresh token.
func (s *Signer) granted(ctx context.Context) (token, secrets, *failure.Failure) {
	o := s.adapter.Auth.OAuth
	var form *httpcall.Pairs
	var known secrets
	from := func(c file.Credential) (string, *failure.Failure) {
		v, f := s.secret(c)
		known = known.with(v)
		return v, f
	}
	switch o.Grant {
	case file.TokenExchange:
		subject, f := from(o.Subject)
		if f != nil {
			return token{}, nil, f
		}
		form = s.form("urn:ietf:params:oauth:grant-type:token-exchange")
		form.Add("subject_token", subject)
		form.Add("subject_token_type", o.SubjectType)
	case file.JWTBearer:
		assertion, f := from(o.Assertion)
		if f != nil {
			return token{}, nil, f
		}
		form = s.form("urn:ietf:params:oauth:grant-type:jwt-bearer")
		form.Add("assertion", assertion)
	default:
		form = s.form(string(file.ClientCredentials))
	}
	s.session.mu.Lock()
	further := s.session.further
	s.session.mu.Unlock()
	s.scope(form, further)
	c, err := s.oauthClient()
	if err != nil {
		return token{}, nil, s.failed(err)
	}
	a, err := s.ask(ctx, c, form, known)
	if err != nil {
		return token{}, nil, s.failed(err)
	}
	t := newToken(a.Access, lifeFor(a), s.keeper.Now())
	t.further = further
	return t, known.with(c.known...), nil
}

// Renew replaces the token in o, which the API refused. The failure says why there is no
// new token.
func (s *Signer) Renew(ctx context.Context, o *httpcall.Outgoing) *failure.Failure {
	au := &s.adapter.Auth
	for i, h := range o.Headers {
		if h.Name != au.Header {
			continue
		}
		token, secrets, f := s.token(ctx, strings.TrimPrefix(h.Value, au.Prefix))
		if f != nil {
			return f
		}
		o.Secrets = append(o.Secrets, secrets...)
		s.keeper.Sent.Sent.Keep(token.text)
		o.Headers[i].Value = au.Prefix + token.text
		break
	}
	return nil
}
