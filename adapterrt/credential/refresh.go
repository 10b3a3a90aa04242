package credential

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/dragoman-proxy/dragoman/adapterrt/failure"
	"github.com/dragoman-proxy/dragoman/adapterrt/file"
)

// record is what is stored for an adapter as a client of an OAuth server.
type record struct {
	Refresh string    `json:"refresh_token,omitempty"`
	Access  string    `json:"access_token,omitempty"`
	For     string    `json:"access_token_for,omitempty"` // hash of what it was asked for
	Renew   time.Time `json:"renew,omitzero"`
	Expires time.Time `json:"expires,omitzero"`

	// Seed is a hash of the configured refresh token that this goes back to: another one
	// begins anew.
	Seed string `json:"seed,omitempty"`
	// Asked says that the refresh token was sent. As long as that stands here, there was no
	// answer, and the server may have replaced it.
	Asked bool `json:"asked,omitempty"`
	// Keeps says that the server gave no other refresh token the last time: it may be sent again.
	Keeps bool `json:"keeps,omitempty"`
	// Ended is the server's word that the refresh token is no use any more.
	Ended string `json:"ended,omitempty"`
}

var (
	errNoLogin = errors.New("there was no login yet")
	errLost    = errors.New("the answer to the last refresh was lost, and with it perhaps the next refresh token")
)

// account names what is stored for the client id.
func (s *Signer) account(id string) string {
	return "adapter " + s.adapter.Name + "\n" + s.adapter.Auth.OAuth.URL + "\n" + id
}

// wants is a hash of what tokens are asked for.
func (s *Signer) wants() string {
	o := s.adapter.Auth.OAuth
	return hashed(strings.Join(o.Scopes, " ") + "\n" + o.Audience + "\n" + o.Resource)
}

func hashed(s string) string {
	sum := sha256.Sum256([]byte(s))
	return hex.EncodeToString(sum[:16])
}

// refreshed is a token by the refresh token that is stored. One process at a time asks
// for it; the others take what it brought.
func (s *Signer) refreshed(ctx context.Context, stale string) (t token, known secrets, f *failure.Failure) {
	c, err := s.oauthClient()
	if err != nil {
		return t, nil, s.failed(err)
	}
	err = s.keeper.Store.Locked(ctx, s.account(c.id), func(e Entry) { t, known, f = s.refresh(ctx, e, c, stale) })
	if err != nil {
		return t, nil, s.failed(err)
	}
	return t, known, f
}

// refresh does so with e, which is locked.
func (s *Signer) refresh(ctx context.Context, e Entry, c client, stale string) (t token, known secrets, f *failure.Failure) {
	o, now := s.adapter.Auth.OAuth, s.keeper.Now()
	r, err := readRecord(e)
	if err != nil {
		return t, nil, s.loginRequired(err)
	}
	if f := s.seed(&r); f != nil {
		return t, nil, f
	}
	known = c.known.with(r.Refresh, r.Access)
	stored := token{r.Access, r.Renew, r.Expires}
	if r.Access == stale || r.For != s.wants() || r.Expires.After(now.Add(2*lifeLongest)) {
		stored = token{}
	}
	if stored.text != "" && now.Before(stored.renew) {
		return stored, known, nil
	}
	fail := func(f *failure.Failure) (token, secrets, *failure.Failure) {
		if stored.text != "" && now.Before(stored.expires) {
			stored.renew = now.Add(retryPause)
			return stored, known, nil
		}
		return token{}, nil, f
	}
	switch {
	case r.Ended != "":
		return fail(s.loginRequired(fmt.Errorf("the OAuth server has ended the login (%s)", r.Ended)))
	case r.Refresh == "" && r.Access != "":
		return fail(s.loginRequired(errors.New("the token has ended, and the OAuth server gave none to refresh it with")))
	case r.Refresh == "":
		return fail(s.loginRequired(errNoLogin))
	case r.Asked && !r.Keeps:
		return fail(s.loginRequired(errLost))
	}
	if !r.Keeps {
		c.sending = func() { // the process may end at any time from here on
			r.Asked = true
			r.put(e)
		}
	}
	form := s.form(string(file.RefreshToken))
	form.Add("refresh_token", r.Refresh)
	if o.Grant == file.RefreshToken {
		s.scope(form)
	} else {
		s.resource(form)
	}
	a, err := s.ask(ctx, c, form, known)
	if err != nil {
		refused := (*refusal)(nil)
		over := errors.As(err, &refused) && refused.loginIsOver()
		if over {
			r.Ended = refused.code
		}
		if !errors.As(err, new(unanswered)) && r.Asked {
			r.Asked = false
			r.put(e)
		} else if over {
			r.put(e)
		}
		if over {
			return fail(s.loginRequired(err))
		}
		return fail(s.failed(err))
	}
	r.take(a, s.keeper.Now())
	r.For = s.wants()
	r.put(e) // before the access token is used
	return token{r.Access, r.Renew, r.Expires}, known.with(r.Refresh), nil
}

func readRecord(e Entry) (r record, err error) {
	data, err := e.Get()
	if err == nil && data != nil && json.Unmarshal(data, &r) != nil {
		err = errors.New("the stored tokens are damaged")
	}
	return r, err
}

// put stores r. The store itself says where that failed, and goes on with it in memory.
func (r *record) put(e Entry) error {
	data, err := json.Marshal(r)
	if err != nil {
		return err
	}
	return e.Put(data)
}

// take is what an answer makes of r.
func (r *record) take(a answer, now time.Time) {
	r.Asked, r.Ended = false, ""
	r.Keeps = a.refresh == "" || a.refresh == r.Refresh
	if a.refresh != "" {
		r.Refresh = a.refresh
	}
	life := a.life
	if r.Refresh == "" && !a.said {
		life = lifeLongest // it holds until the API refuses it
	}
	t := newToken(a.token, life, now)
	r.Access, r.Renew, r.Expires = t.text, t.renew, t.expires
}

// seed begins r anew when there is another refresh token in the configuration than the
// one that it goes back to.
func (s *Signer) seed(r *record) *failure.Failure {
	o := s.adapter.Auth.OAuth
	if o.Refresh == (file.Credential{}) {
		return nil
	}
	seed, f := s.secret(o.Refresh)
	switch {
	case f != nil && r.Refresh == "" && r.Access == "":
		return f
	case f != nil: // what is stored goes on without it
	case r.Seed == "" && r.Refresh+r.Access != "": // of a login that did not know the seed
		r.Seed = hashed(seed)
	case r.Seed != hashed(seed):
		*r = record{Refresh: seed, Seed: hashed(seed)}
	}
	return nil
}
