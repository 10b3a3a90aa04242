package oauth

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"go.uber.org/zap"
)

// Logout deletes the tokens of the account. If the authorization server has a revocation endpoint,
// it is asked first to revoke the refresh token (https://www.rfc-editor.org/rfc/rfc7009); err says
// why it was not revoked. known is false if no tokens were stored.
func (a *Account) Logout(ctx context.Context) (known, revoked bool, err error) {
	locked := a.store.Locked(ctx, a.id, func(e Entry) {
		r, unusable := load(e)
		known = unusable != nil || r.Refresh+r.Access != ""
		if token := cmp.Or(r.Refresh, r.Access); unusable == nil && r.Authority.Revocation != "" && token != "" {
			err = a.revoke(ctx, &r, token)
			revoked = err == nil
		}
		if failed := e.Put(nil); failed != nil {
			err = errors.Join(err, failed)
		}
	})
	for _, id := range []string{a.signInID(), a.terminalID()} { // not needed if a sign-in is in progress
		turn, end := context.WithTimeout(ctx, signInPoll)
		_ = a.store.Locked(turn, id, func(e Entry) { _ = e.Put(nil) })
		end()
	}
	a.mu.Lock()
	a.live = record{}
	a.mu.Unlock()
	return known, revoked, errors.Join(err, locked)
}

func (a *Account) revoke(ctx context.Context, r *record, token string) error {
	a.useConfigured(&r.Client, &r.Authority)
	reply, err := a.send(ctx, &r.Authority, &r.Client, r.Authority.Revocation, url.Values{"token": {token}}, nil)
	if err != nil {
		return failure(r.Authority.Revocation, err)
	}
	if reply.Status != http.StatusOK {
		return fmt.Errorf("AS %s answered %d to the revocation", hostOf(r.Authority.Revocation), reply.Status)
	}
	return nil
}

// Status is what is stored of an account.
type Status struct {
	Server, Profile, Issuer, Client string
	Scopes                          []string
	Expires                         time.Time // of the access token; zero if it is not known
	Signed                          bool      // there are tokens
	Renews                          bool      // there is a refresh token
	Sealed                          bool      // the file is encrypted
	Err                             error     // why the file cannot be used; nil if it can
}

// eachAccount calls do with the file of each stored account, and with the lines of its id.
func (s *Store) eachAccount(do func(f kept, lines []string)) error {
	files, err := s.files()
	for _, f := range files {
		if lines := strings.Split(f.For, "\n"); len(lines) == 5 && lines[1] == accountMark {
			do(f, lines)
		}
	}
	return err
}

// List returns what is stored of all accounts.
func List(ctx context.Context, store *Store) (all []Status, err error) {
	err = store.eachAccount(func(f kept, lines []string) {
		s := Status{Server: lines[0], Profile: lines[2], Sealed: f.Sealed != nil}
		if locked := store.Locked(ctx, f.For, func(e Entry) {
			var r record
			if r, s.Err = load(e); s.Err == nil {
				s.Issuer, s.Client, s.Scopes, s.Expires = r.Authority.Issuer, r.Client.ID, r.Scopes, r.Expires
				s.Signed, s.Renews = r.Access != "", r.Refresh != ""
			}
		}); locked != nil {
			s.Err = locked
		}
		all = append(all, s)
	})
	return all, err
}

// Accounts returns all stored accounts, for their logout.
func Accounts(store *Store, log *zap.Logger) (all []*Account, err error) {
	err = store.eachAccount(func(f kept, lines []string) {
		a, err := NewAccount(Config{Server: lines[0], Profile: lines[2], Resource: lines[3], ClientID: lines[4]}, store, log)
		if err != nil {
			return // no account of ours has such a server
		}
		a.id = f.For
		all = append(all, a)
	})
	return all, err
}
