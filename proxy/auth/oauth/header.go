package oauth

import (
	"context"
	"errors"
	"net/http"
)

// Header returns the value of Authorization for a request to the server, "" if there was no
// sign-in yet. It renews a token that is about to expire.
func (a *Account) Header(ctx context.Context) (string, error) {
	a.mu.Lock()
	r, looked := a.live, a.looked
	a.looked = true
	a.mu.Unlock()
	switch {
	case r.Access == "" && looked, r.Access == "" && a.store.kind != Memory && a.store.peek(a.id) == nil:
		return "", nil // servers that want no token cost no more than this; a refusal reads the store again
	case r.due(a.now()):
		var err error
		if r, err = a.renew(ctx, func(r *record) bool { return r.due(a.now()) }, true); err != nil {
			if _, ended := errors.AsType[*SignInError](err); ended && a.open != nil {
				return "", nil // the server's refusal then begins a sign-in
			}
			return "", err
		}
	}
	if r.Access == "" {
		return "", nil
	}
	return "Bearer " + r.Access, nil
}

// Refused handles the server's refusal of a request whose Authorization had this value. It returns
// nil if there is a new value, so that the caller can send the request again.
func (a *Account) Refused(ctx context.Context, value string, refusal Refusal) error {
	c := readChallenge(refusal.Challenge)
	switch {
	case refusal.Status == http.StatusForbidden && c.err == "insufficient_scope" && value != "":
		return a.stepUp(ctx, value, c, refusal.Tries)
	case refusal.Status != http.StatusUnauthorized:
		return ErrNotOurs
	}
	a.mu.Lock()
	known := a.useless != "" && value == "Bearer "+a.useless && a.now().Sub(a.marked) < uselessFor
	r := a.live
	// A token that was only read from the store may be as old as the refused one.
	first := !known && refusal.Tries > 0 && a.fresh != "" && value == "Bearer "+a.fresh && a.fresh == r.Access && !r.over(a.now())
	if first {
		a.useless, a.marked, known = r.Access, a.now(), true
	}
	a.mu.Unlock()
	if first && a.movedTo(ctx, c, &r) != "" {
		why := &SignInError{Server: a.cfg.Server, Args: a.args, Err: errors.New("the server has moved to another authorization server")}
		if a.open == nil {
			return why
		}
		return a.await(ctx, value, c, why)
	}
	if known {
		return &uselessError{server: a.cfg.Server, audience: audienceOf(&r), named: r.Named}
	}
	r, err := a.renew(ctx, func(r *record) bool { return r.Access == "" || "Bearer "+r.Access == value }, false)
	useless := r.Access == "" || "Bearer "+r.Access == value
	_, ended := errors.AsType[*SignInError](err)
	switch {
	case err == nil && !useless:
		if value != "" {
			a.mu.Lock()
			a.fresh = r.Access
			a.mu.Unlock()
		}
		return nil
	case err != nil && !ended && !errors.Is(err, ErrUnusable):
		return err
	case a.open != nil:
		return a.await(ctx, value, c, err)
	case err != nil:
		return err
	}
	return a.unsigned(ctx, c)
}

// unsigned returns the error for a server that requires a sign-in, or that requires a token without
// saying where to get one.
func (a *Account) unsigned(ctx context.Context, c challenge) error {
	if c.metadata == "" && a.cfg.Issuer == "" {
		if at, err := a.discover(ctx, c, ""); err == nil && at.guessed && !a.exists(ctx, at.Authorization) {
			return &nowhereError{a.cfg.Server}
		}
	}
	return &SignInError{Server: a.cfg.Server, Args: a.args}
}
