package credential

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"time"

	"github.com/dragoman-proxy/dragoman/adapterrt/httpcall"
)

// Stored describes the stored login of an adapter.
type Stored struct {
	Server  string    // the OAuth server's host
	State   string    // a text for people
	Expires time.Time // of the access token; zero for none
}

// storesTokens returns nil if the adapter's tokens are stored, and otherwise an error that says
// why they are not.
func (s *Signer) storesTokens() error {
	if o := s.adapter.Auth.OAuth; o == nil || !o.Rotates() || s.command != nil {
		return fmt.Errorf("adapter %s stores no tokens: only auth of type oauth does, for a grant with refresh tokens", s.adapter.Name)
	}
	return nil
}

// Stored reads the stored tokens of the adapter, without a request to the OAuth server. It
// returns an error only if this adapter never stores tokens.
func (s *Signer) Stored(ctx context.Context) (st Stored, err error) {
	if err := s.storesTokens(); err != nil {
		return st, err
	}
	if u, err := url.Parse(s.adapter.Auth.OAuth.URL); err == nil {
		st.Server = u.Host
	}
	c, err := s.oauthClient()
	if err != nil {
		st.State = explained(err).Error()
		return st, nil
	}
	var r record
	locked := s.keeper.Store.Locked(ctx, s.account(c.ID), func(e Entry) {
		if r, err = readRecord(e); err == nil {
			if f := s.seed(&r); f != nil {
				err = explained(f)
			}
		}
	})
	if err := errors.Join(locked, err); err != nil {
		st.State = err.Error()
		return st, nil
	}
	now := s.keeper.Now()
	if r.Access != "" && now.Before(r.Expires) {
		st.Expires = r.Expires
	}
	switch {
	case r.Ended != "":
		st.State = "ended by the server (" + r.Ended + ")"
	case r.Refresh == "" && st.Expires.IsZero():
		st.State = "not logged in"
	case r.Asked && !r.Keeps:
		st.State = "the answer to the last refresh was lost"
	default:
		st.State = "logged in"
	}
	return st, nil
}

// Forget removes the stored tokens of the adapter, and asks its OAuth server to revoke them.
// revoked says whether the server did. If it did not, why says why; why is nil if the file
// names no revocation_url or there was nothing to revoke. After an err, the tokens are still
// stored.
func (s *Signer) Forget(ctx context.Context) (revoked bool, why, err error) {
	if err := s.storesTokens(); err != nil {
		return false, nil, err
	}
	c, err := s.oauthClient()
	if err != nil {
		return false, nil, explained(err)
	}
	locked := s.keeper.Store.Locked(ctx, s.account(c.ID), func(e Entry) {
		if r, damaged := readRecord(e); damaged == nil {
			revoked, why = s.revoke(ctx, c, &r)
		}
		err = e.Put(nil)
	})
	return revoked, why, errors.Join(locked, err)
}

// revoke sends a revocation request: https://www.rfc-editor.org/rfc/rfc7009#section-2
func (s *Signer) revoke(ctx context.Context, c client, r *record) (bool, error) {
	endpoint := s.adapter.Auth.OAuth.RevokeURL
	token, kind := r.Refresh, "refresh_token"
	if token == "" {
		token, kind = r.Access, "access_token"
	}
	if endpoint == "" || token == "" {
		return false, nil
	}
	form := &httpcall.Pairs{}
	form.Add("token", token)
	form.Add("token_type_hint", kind)
	known := secrets{r.Refresh, r.Access}
	answer, known, err := s.send(ctx, endpoint, c, form, known)
	if err == nil && answer.Good() { // whatever its body is
		return true, nil
	}
	if err == nil {
		if _, err = answer.Object(); codeOf(err) == "" {
			err = fmt.Errorf("%s answered %d", answer.Host, answer.Status)
		}
	}
	return false, cleaned(err, known)
}
