package oauthtest

import (
	"crypto"
	"net/url"
	"time"

	"github.com/golang-jwt/jwt/v5"
)

const bearerGrant = "urn:ietf:params:oauth:grant-type:jwt-bearer"

// asserted returns why an assertion gives no token, "" if it does: https://www.rfc-editor.org/rfc/rfc7523#section-3.
func (s *Server) asserted(assertion string, o Options) (why string) {
	claims := jwt.RegisteredClaims{}
	_, err := jwt.ParseWithClaims(assertion, &claims, func(*jwt.Token) (any, error) { return o.AssertionKey, nil },
		jwt.WithValidMethods([]string{"ES256", "RS256"}), jwt.WithTimeFunc(o.now), jwt.WithAudience(s.Issuer), jwt.WithExpirationRequired())
	switch {
	case o.AssertionKey == nil:
		return "no assertions are taken"
	case err != nil:
		return err.Error()
	case claims.Issuer == "" || claims.Subject == "":
		return "no iss or no sub"
	}
	return ""
}

// proven returns why the assertion in a form does not prove that it is of the client id, "" if it does:
// https://www.rfc-editor.org/rfc/rfc7523#section-3.
func (s *Server) proven(form url.Values, id string, key crypto.PublicKey) (why string) {
	o := s.options(func(*Counts) {})
	audience := s.Issuer
	if o.KeyForToken {
		audience += "/token"
	}
	claims := jwt.RegisteredClaims{}
	_, err := jwt.ParseWithClaims(form.Get("client_assertion"), &claims, func(*jwt.Token) (any, error) { return key, nil },
		jwt.WithValidMethods([]string{"ES256", "RS256"}), jwt.WithTimeFunc(o.now), jwt.WithAudience(audience), jwt.WithIssuer(id), jwt.WithSubject(id),
		jwt.WithExpirationRequired(), jwt.WithIssuedAt())
	switch {
	case form.Get("client_assertion_type") != "urn:ietf:params:oauth:client-assertion-type:jwt-bearer":
		return "no client assertion"
	case form.Has("client_secret"):
		return "two ways to authenticate"
	case err != nil:
		return err.Error()
	case claims.ExpiresAt.Sub(o.now()) > time.Minute:
		return "the assertion is valid for longer than a minute"
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if claims.ID == "" || s.proofs[claims.ID] {
		return "the assertion has no id, or was used before"
	}
	s.proofs[claims.ID] = true
	return ""
}
