package credential

import (
	"cmp"
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
	"github.com/dragoman-proxy/dragoman/oauthclient"
)

// record holds the stored tokens of an adapter as a client of an OAuth server.
type record struct {
	Refresh string    `json:"refresh_token,omitempty"`
	Access  string    `json:"access_token,omitempty"`
	For     string    `json:"access_token_for,omitempty"` // hash of the scopes, audience and resource of the token
	Renew   time.Time `json:"renew,omitzero"`
	Expires time.Time `json:"expires,omitzero"`

	// Further are the scopes beside those of the file that the login asked for, and Wanted those that calls have wanted since.
	Further []string `json:"further_scopes,omitempty"`
	Wanted  []string `json:"wanted_scopes,omitempty"`

	// Seed is a hash of the configured refresh token from which these tokens come. If another
	// refresh token is configured, the record is replaced.
	Seed string `json:"seed,omitempty"`
	// Asked says that the refresh token was sent and no answer has come. The server may have
	// replaced the refresh token.
	Asked bool `json:"asked,omitempty"`
	// Keeps says that the server's last answer did not replace the refresh token, so that it
	// may be sent again.
	Keeps bool `json:"keeps,omitempty"`
	// Ended is the error code with which the server refused the refresh token for good.
	Ended string `json:"ended,omitempty"`
}

var (
	errNoLogin = errors.New("there was no login yet")
	errLost    = errors.New("the answer to the last refresh was lost, and it may have contained the next refresh token")
)

// account returns the id under which the tokens of the client id are stored.
func (s *Signer) account(id string) string {
	return "adapter " + s.adapter.Name + "\n" + s.adapter.Auth.OAuth.URL + "\n" + id
}

// wants returns a hash of the configured scopes, audience and resource.
func (s *Signer) wants() string {
	o := s.adapter.Auth.OAuth
	return hashed(strings.Join(o.Scopes, " ") + "\n" + o.Audience + "\n" + o.Resource)
}

func hashed(s string) string {
	sum := sha256.Sum256([]byte(s))
	return hex.EncodeToString(sum[:16])
}

// refreshed returns a token obtained with the stored refresh token. Only one process at a time
// sends the request; the others use the token that it stores.
func (s *Signer) refreshed(ctx context.Context, stale string) (t token, known secrets, f *failure.Failure) {
	c, err := s.oauthClient()
	if err != nil {
		return t, nil, s.failed(err)
	}
	err = s.keeper.Store.Locked(ctx, s.account(c.ID), func(e Entry) { t, known, f = s.refresh(ctx, e, c, stale) })
	if err != nil {
		return t, nil, s.failed(err)
	}
	return t, known, f
}

// refresh does what refreshed does, with the locked entry e.
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
	stored := token{r.Access, r.Renew, r.Expires, r.Further}
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
		return fail(s.loginRequired(errors.New("the access token has expired, and the OAuth server gave no refresh token")))
	case r.Refresh == "":
		return fail(s.loginRequired(errNoLogin))
	case r.Asked && !r.Keeps:
		return fail(s.loginRequired(errLost))
	}
	if !r.Keeps {
		c.Connected = func() { // stored before the request, because the process may end before the answer
			r.Asked = true
			r.put(e)
		}
	}
	form := s.form(string(file.RefreshToken))
	form.Add("refresh_token", r.Refresh)
	if o.Grant == file.RefreshToken {
		s.scope(form, r.Further)
	} else {
		s.resource(form)
	}
	a, err := s.ask(ctx, c, form, known)
	if err != nil {
		over := loginIsOver(codeOf(err))
		if over {
			r.Ended = codeOf(err)
		}
		if !errors.As(err, new(oauthclient.Unanswered)) && r.Asked {
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
	return token{r.Access, r.Renew, r.Expires, r.Further}, known.with(r.Refresh), nil
}

func readRecord(e Entry) (r record, err error) {
	data, err := e.Get()
	if err == nil && data != nil && json.Unmarshal(data, &r) != nil {
		err = errors.New("the stored tokens are damaged")
	}
	return r, err
}

// put stores r. If that fails, the store logs it and keeps r in memory.
func (r *record) put(e Entry) error {
	data, err := json.Marshal(r)
	if err != nil {
		return err
	}
	return e.Put(data)
}

// take updates r with the answer of a token endpoint.
func (r *record) take(a oauthclient.Token, now time.Time) {
	r.Asked, r.Ended = false, ""
	r.Keeps = a.Refresh == "" || a.Refresh == r.Refresh
	r.Refresh = cmp.Or(a.Refresh, r.Refresh)
	life := lifeFor(a)
	if r.Refresh == "" && a.Life == 0 {
		life = lifeLongest // the token is used until the API refuses it
	}
	t := newToken(a.Access, life, now)
	r.Access, r.Renew, r.Expires = t.text, t.renew, t.expires
}

// seed replaces r if the configured refresh token is not the one from which r comes.
func (s *Signer) seed(r *record) *failure.Failure {
	o := s.adapter.Auth.OAuth
	if o.Refresh == (file.Credential{}) {
		return nil
	}
	seed, f := s.secret(o.Refresh)
	switch {
	case f != nil && r.Refresh == "" && r.Access == "":
		return f
	case f != nil: // the stored tokens stay in use without it
	case r.Seed == "" && r.Refresh+r.Access != "": // stored by a login without a configured refresh token
		r.Seed = hashed(seed)
	case r.Seed != hashed(seed):
		*r = record{Refresh: seed, Seed: hashed(seed)}
	}
	return nil
}
