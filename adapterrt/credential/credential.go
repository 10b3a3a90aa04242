package credential

import (
	"context"
	"encoding/base64"
	"fmt"
	"slices"
	"strings"

	"github.com/dragoman-proxy/dragoman/adapterrt/escape"
	"github.com/dragoman-proxy/dragoman/adapterrt/failure"
	"github.com/dragoman-proxy/dragoman/adapterrt/file"
	"github.com/dragoman-proxy/dragoman/adapterrt/httpcall"
	"github.com/dragoman-proxy/dragoman/translate/wire"
)

// Authorize adds the adapter's credentials to o, unless o is anonymous.
func (s *Signer) Authorize(ctx context.Context, o *httpcall.Outgoing) *failure.Failure {
	if o.Anonymous {
		return nil
	}
	if s.session == nil {
		return s.sign(o, nil)
	}
	au := &s.adapter.Auth
	token, secrets, f := s.token(ctx, "")
	if f == nil {
		token, secrets, f = s.scoped(ctx, o, token, secrets)
	}
	if f != nil {
		return f
	}
	o.Secrets = append(o.Secrets, secrets...)
	o.Headers = append(o.Headers, file.Header{Name: au.Header, Value: au.Prefix + token.text})
	return s.sign(o, nil)
}

// Sketch does what Authorize does, for a request that is only shown and not sent: it adds
// "..." in place of a token and requests none. Where a credential is missing it adds words that say so, and returns them.
func (s *Signer) Sketch(o *httpcall.Outgoing) (missing []string, f *failure.Failure) {
	if o.Anonymous {
		return nil, nil
	}
	au, at := &s.adapter.Auth, len(o.Headers)
	if s.session != nil || au.AWS != nil {
		o.Headers = append(o.Headers, file.Header{Name: au.Header, Value: au.Prefix + "..."})
	}
	f = s.sign(o, &missing)
	if au.AWS != nil && len(missing) > 0 {
		missing = append(missing, strings.Join(missing, " "))
		o.Headers[at].Value = au.Prefix + missing[len(missing)-1]
	}
	return missing, f
}

// Renews reports whether the signer can replace a token that the API refuses.
func (s *Signer) Renews() bool { return s.session != nil }

// sign adds the credentials that are not tokens. If missing is not nil, it adds to it the words for those that are missing,
// and does not fail.
func (s *Signer) sign(o *httpcall.Outgoing, missing *[]string) *failure.Failure {
	au := &s.adapter.Auth
	if s.session == nil {
		if f := s.add(o, &au.Scheme, missing); f != nil {
			return f
		}
	}
	for i := range au.Also {
		if f := s.add(o, &au.Also[i], missing); f != nil {
			return f
		}
	}
	if missing == nil {
		s.keeper.Sent.Sent.Keep(o.Secrets...)
	}
	return nil
}

func (s *Signer) add(o *httpcall.Outgoing, k *file.Scheme, missing *[]string) *failure.Failure {
	switch k.Kind {
	case file.AuthNone:
		return nil
	case file.AuthAWS:
		return s.signAWS(o, s.adapter.Auth.AWS, missing)
	}
	v, f := s.valueOf(k.Value, missing)
	if f != nil {
		return f
	}
	o.Secrets = append(o.Secrets, v)
	switch {
	case k.Kind == file.AuthBasic:
		user, f := s.valueOf(k.User, missing)
		if f != nil {
			return f
		}
		switch {
		case isOneOf(missing, v):
		case isOneOf(missing, user):
			v = user
		default:
			v = base64.StdEncoding.EncodeToString([]byte(user + ":" + v))
		}
		o.Secrets = append(o.Secrets, v)
		o.Headers = append(o.Headers, file.Header{Name: k.Header, Value: "Basic " + v})
	case k.Cookie != "":
		if strings.Contains(v, ";") && missing == nil { // it would end the cookie
			return &failure.Failure{
				Code: failure.AuthInvalid, Own: true, Cause: fmt.Errorf("credential %v contains a semicolon, and is sent in a cookie", k.Value),
				Message: "Credential for adapter '" + s.adapter.Name + "' is not usable",
				Details: wire.Members(nil).Str("adapter", s.adapter.Name).End(),
			}
		}
		addCookie(o, k.Cookie+"="+v)
	case k.Query != "":
		o.URL.Add(k.Query, v)
		o.Secrets = append(o.Secrets, string(escape.AppendQuery(nil, v)))
	default:
		o.Headers = append(o.Headers, file.Header{Name: k.Header, Value: k.Prefix + v})
	}
	return nil
}

// addCookie adds a cookie to o. All cookies of a request are in one header: https://www.rfc-editor.org/rfc/rfc6265#section-5.4
func addCookie(o *httpcall.Outgoing, pair string) {
	for i := range o.Headers {
		if o.Headers[i].Name == "Cookie" {
			o.Headers[i].Value += "; " + pair
			return
		}
	}
	o.Headers = append(o.Headers, file.Header{Name: "Cookie", Value: pair})
}

func isOneOf(missing *[]string, v string) bool { return missing != nil && slices.Contains(*missing, v) }

// maxOwn is the largest number of bytes of a caller's credential.
const maxOwn = 16 << 10

// Present adds the caller's own credential to o, in place of the adapter's. Keys that the API
// needs in addition, and that the caller does not send, are the adapter's. An anonymous o gets none of them.
func (s *Signer) Present(o *httpcall.Outgoing, own []file.Header) *failure.Failure {
	if o.Anonymous {
		return nil
	}
	au := &s.adapter.Auth
	for _, h := range own {
		v := strings.TrimSpace(h.Value)
		if len(v) > maxOwn || !file.IsHeaderValue(v) {
			return &failure.Failure{
				Code: failure.AuthInvalid, Message: "Your credential for adapter '" + s.adapter.Name + "' is not usable: it is too long or contains control characters",
				Details: wire.Members(nil).Str("adapter", s.adapter.Name).End(), Caller: true,
			}
		}
		o.Secrets = append(o.Secrets, v)
		s.keeper.Sent.Clients.Keep(v)
		for _, scheme := range au.Schemes() {
			if scheme.Prefix == "" || !strings.EqualFold(scheme.Header, h.Name) {
				continue
			}
			if bare, has := cutPrefixFold(v, scheme.Prefix); has {
				o.Secrets = append(o.Secrets, bare)
			} else if !strings.Contains(v, " ") { // not with another scheme in front
				v = scheme.Prefix + v
			}
		}
		if _, bare, ok := strings.Cut(v, " "); ok && strings.TrimSpace(bare) != "" {
			o.Secrets = append(o.Secrets, strings.TrimSpace(bare))
		}
		o.Headers = append(o.Headers, file.Header{Name: h.Name, Value: v})
	}
	callers := len(o.Secrets)
	for i := range au.Also {
		k := &au.Also[i]
		if slices.ContainsFunc(own, func(h file.Header) bool { return strings.EqualFold(h.Name, k.Header) }) {
			continue
		}
		if f := s.add(o, k, nil); f != nil {
			return f
		}
	}
	s.keeper.Sent.Sent.Keep(o.Secrets[callers:]...)
	return nil
}

// cutPrefixFold is strings.CutPrefix without regard to case.
func cutPrefixFold(s, prefix string) (after string, found bool) {
	if len(s) < len(prefix) || !strings.EqualFold(s[:len(prefix)], prefix) {
		return s, false
	}
	return s[len(prefix):], true
}
