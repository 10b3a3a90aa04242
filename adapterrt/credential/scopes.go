package credential

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/dragoman-proxy/dragoman/adapterrt/failure"
	"github.com/dragoman-proxy/dragoman/adapterrt/file"
	"github.com/dragoman-proxy/dragoman/adapterrt/httpcall"
	"github.com/dragoman-proxy/dragoman/adapterrt/pattern"
	"github.com/dragoman-proxy/dragoman/translate/wire"
)

// A token is asked for with the scopes of the file. If a request needs others, as its operation or the API's refusal says, another token
// is obtained with all of them: step-up. What counts is for which scopes a login was asked, not what the server says that it gave,
// because servers write scopes in several ways and one scope may include another. So no scope is asked for twice with one login,
// and a call asks a person at most once.

// maxFurther is the largest number of scopes beside those of the file.
const maxFurther = 100

// parameter matches a parameter of a challenge: https://www.rfc-editor.org/rfc/rfc9110#section-11.2
var parameter = pattern.Later(`(?i)\b(error|scope)\s*=\s*(?:"([^"]*)"|([^\s",]+))`)

// Insufficient reports whether an API refused a request because its token lacks scopes, and which scopes the API says that it needs:
// https://www.rfc-editor.org/rfc/rfc6750#section-3.1
func Insufficient(r *httpcall.Reply) (scopes []string, says bool) {
	if r.Status != 403 && r.Status != 401 {
		return nil, false
	}
	var said, scope string
	for _, field := range r.Header.Values("WWW-Authenticate") {
		for _, m := range parameter().FindAllStringSubmatch(field, 10) {
			if strings.EqualFold(m[1], "error") {
				said = m[2] + m[3]
			} else {
				scope = m[2] + m[3]
			}
		}
	}
	if said == "" && len(r.Body) > 0 && wire.KindOf(r.Body) == wire.Object && wire.Valid(r.Body) {
		if v := wire.Member(r.Body, "error"); wire.KindOf(v) == wire.String {
			said = string(wire.Unquoted(v))
		}
	}
	for _, s := range strings.Fields(scope) {
		if file.IsScope(s) && len(scopes) < maxFurther {
			scopes = append(scopes, s)
		}
	}
	return scopes, said == "insufficient_scope"
}

// union returns a followed by what is only in b, at most maxFurther in all.
func union(a, b []string) []string {
	out := slices.Clip(a)
	for _, s := range b {
		if !slices.Contains(out, s) && len(out) < maxFurther {
			out = append(out, s)
		}
	}
	return out
}

// lacks returns those of the scopes for which a token was not asked that has further ones beside those of the file.
func (s *Signer) lacks(scopes, further []string) (out []string) {
	o := s.adapter.Auth.OAuth
	if o == nil || s.command != nil {
		return nil
	}
	t := s.session
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, scope := range scopes {
		if !slices.Contains(o.Scopes, scope) && !slices.Contains(further, scope) && !slices.Contains(t.refused, scope) && !slices.Contains(out, scope) {
			out = append(out, scope)
		}
	}
	return out
}

// scoped returns t, or a token with the scopes that o needs, if they are known and t lacks some. asks says that a person can be asked
// to log in.
func (s *Signer) scoped(ctx context.Context, o *httpcall.Outgoing, t token, known secrets) (token, secrets, *failure.Failure) {
	if au := s.adapter.Auth.OAuth; au == nil || len(au.Scopes) == 0 || s.lacks(o.Scopes, t.further) == nil || au.Rotates() && !(o.Asks && au.HasLogin()) {
		return t, known, nil // without scopes in the file, the server decides what a token may do
	}
	return s.stepUp(ctx, o.Scopes, t, known)
}

// StepUp replaces the token in o, which the API refused because it lacks scopes. said are those that the API names. It reports whether
// there is another token; if a person must log in for it, the failure says so.
func (s *Signer) StepUp(ctx context.Context, o *httpcall.Outgoing, said []string) (again bool, f *failure.Failure) {
	au := s.adapter.Auth.OAuth
	if au == nil || s.command != nil {
		return false, nil
	}
	wanted := union(slices.Clone(o.Scopes), said)
	if !au.Rotates() { // no person is asked, so the API must not choose what its tokens may do: the file does
		wanted = slices.DeleteFunc(wanted, func(scope string) bool { return !s.adapter.Names(scope) })
	}
	i := slices.IndexFunc(o.Headers, func(h file.Header) bool { return h.Name == s.adapter.Auth.Header })
	if i < 0 {
		return false, nil
	}
	was := token{text: strings.TrimPrefix(o.Headers[i].Value, s.adapter.Auth.Prefix)}
	t := s.session
	t.mu.Lock()
	if t.live.text == was.text || !au.Rotates() {
		was.further = t.live.further
	}
	t.mu.Unlock()
	if s.lacks(wanted, was.further) == nil || au.Rotates() && !au.HasLogin() {
		return false, nil
	}
	now, known, f := s.stepUp(ctx, wanted, was, nil)
	if f != nil || now.text == was.text {
		return false, f
	}
	o.Secrets = append(o.Secrets, known...)
	s.keeper.Sent.Sent.Keep(now.text)
	o.Headers[i].Value = s.adapter.Auth.Prefix + now.text
	return true, nil
}

// stepUp returns a token with the scopes, if there is one without a person. Otherwise it notes for the next login which scopes are
// wanted, and returns the failure that asks for that login.
func (s *Signer) stepUp(ctx context.Context, scopes []string, t token, known secrets) (token, secrets, *failure.Failure) {
	if !s.adapter.Auth.OAuth.Rotates() {
		return s.widen(ctx, s.lacks(scopes, t.further), t, known)
	}
	s.forget() // another process may have logged in
	now, more, f := s.token(ctx, "")
	if f != nil {
		return t, known, f
	}
	lacking := s.lacks(scopes, now.further)
	if lacking == nil {
		return now, more, nil
	}
	c, err := s.oauthClient()
	if err != nil {
		return t, known, s.failed(err)
	}
	if err := s.keeper.Store.Locked(ctx, s.account(c.ID), func(e Entry) {
		if r, err := readRecord(e); err == nil {
			r.Wanted = union(r.Wanted, lacking)
			r.put(e)
		}
	}); err != nil {
		return t, known, s.failed(err)
	}
	f = s.loginRequired(fmt.Errorf("the login was not asked for the scopes %s", strings.Join(lacking, " ")))
	f.Message = "Adapter '" + s.adapter.Name + "' needs a new login by its operator, for the scopes " + strings.Join(lacking, " ")
	f.Details = wire.Members(nil).Str("adapter", s.adapter.Name).Strs("scopes", lacking).Str("login", "dragoman adapter login "+s.adapter.Name).End()
	return t, known, f
}

// widen requests a token with further scopes, for a grant that needs no person. If that fails, t stays in use; if the server refuses,
// these scopes are not asked for again.
func (s *Signer) widen(ctx context.Context, lacking []string, t token, known secrets) (token, secrets, *failure.Failure) {
	on := s.session
	on.mu.Lock()
	on.further = union(on.further, lacking)
	on.mu.Unlock()
	now, more, f := s.token(ctx, t.text)
	if f != nil {
		on.mu.Lock()
		defer on.mu.Unlock()
		on.further = slices.DeleteFunc(slices.Clone(on.further), func(scope string) bool { return slices.Contains(lacking, scope) })
		if codeOf(f) != "" { // a server that cannot be reached, or a call that ends early, refuses nothing
			on.refused = union(on.refused, lacking)
		}
		return t, known, nil
	}
	return now, more, nil
}

// forget makes the next call use the stored token.
func (s *Signer) forget() {
	s.session.mu.Lock()
	s.session.live = token{}
	s.session.mu.Unlock()
}

// furtherScopes returns the scopes beside those of the file that a login which begins now asks for: those of the last login, and those that
// calls have wanted since. These are forgotten: of one that the server does not know, many servers show an error page, from which no browser
// comes back, and the next login must be possible. A call that needs them wants them again.
func (s *Signer) furtherScopes(ctx context.Context) (scopes []string) {
	c, err := s.oauthClient()
	if err != nil {
		return nil
	}
	_ = s.keeper.Store.Locked(ctx, s.account(c.ID), func(e Entry) { // without the store, it is a login as the file says
		r, err := readRecord(e)
		if err != nil {
			return
		}
		if scopes = union(r.Further, r.Wanted); r.Wanted != nil {
			r.Wanted = nil
			r.put(e)
		}
	})
	return slices.DeleteFunc(scopes, func(scope string) bool { return slices.Contains(s.adapter.Auth.OAuth.Scopes, scope) })
}
