package proxy

import (
	"encoding/base64"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/tidwall/gjson"
	"go.uber.org/zap"

	"github.com/dragoman-proxy/dragoman/proxy/oauthrelay"
	"github.com/dragoman-proxy/dragoman/proxy/upstream"
)

// loginFields tell why the server may have refused a request with 401: where its metadata is,
// and whom the client's token says that it is from and for, and until when. The token is not
// verified.
func (l *failureLine) loginFields(quote func(string) string) (fields []zap.Field) {
	status, ok := errors.AsType[*upstream.StatusError](l.err)
	if !ok {
		return nil
	}
	if at := oauthrelay.MetadataIn(challengeOf(status)); at != "" {
		fields = append(fields, zap.String("resource_metadata", quote(at)))
	}
	for _, h := range l.at.header {
		if !strings.EqualFold(h.Name, "Authorization") {
			continue
		}
		claims := claimsOf(h.Value)
		for _, c := range [...]struct{ field, claim string }{{"unverified_aud", "aud"}, {"unverified_iss", "iss"}} {
			if v := claims.Get(c.claim); v.Exists() {
				fields = append(fields, zap.String(c.field, quote(v.String())))
			}
		}
		if until := claims.Get("exp"); until.Type == gjson.Number {
			fields = append(fields, zap.Time("unverified_exp", time.Unix(until.Int(), 0)))
		}
	}
	return fields
}

// loginAt is where the metadata is that begins a login: of a 401 to a request without a token.
// It is "" where err is something else.
func loginAt(err error, header []upstream.Header) string {
	status, ok := errors.AsType[*upstream.StatusError](err)
	if !ok || slices.ContainsFunc(header, func(h upstream.Header) bool { return strings.EqualFold(h.Name, "Authorization") }) {
		return ""
	}
	return oauthrelay.MetadataIn(challengeOf(status))
}

// challengeOf are the fields of the challenge in a refusal.
func challengeOf(status *upstream.StatusError) (challenge []string) {
	for _, h := range status.Header {
		if strings.EqualFold(h.Name, "WWW-Authenticate") {
			challenge = append(challenge, h.Value)
		}
	}
	return challenge
}

// claimsOf are those of a token that is a JWT, nothing of another one. See
// https://www.rfc-editor.org/rfc/rfc7519#section-3.
func claimsOf(authorization string) (claims gjson.Result) {
	_, token, _ := strings.Cut(authorization, " ")
	parts := strings.Split(token, ".")
	if len(parts) != 3 {
		return claims
	}
	text, err := base64.RawURLEncoding.DecodeString(parts[1])
	if err != nil || !gjson.ValidBytes(text) {
		return claims
	}
	return gjson.ParseBytes(text)
}
