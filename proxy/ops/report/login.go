package report

import (
	"encoding/base64"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/tidwall/gjson"
	"go.uber.org/zap"

	"github.com/dragoman-proxy/dragoman/proxy/auth/oauthrelay"
	"github.com/dragoman-proxy/dragoman/proxy/protocol/mcp"
	"github.com/dragoman-proxy/dragoman/proxy/transport/upstream"
)

// loginFields returns log fields that help to find out why the server has refused a request, for example
// with 401: the URL of its metadata, and the audience, issuer and expiry in the client's token. The
// token is not verified.
func (l *line) loginFields(quote func(string) string) (fields []zap.Field) {
	status, ok := errors.AsType[*upstream.StatusError](l.err)
	if !ok {
		return nil
	}
	if at := oauthrelay.MetadataIn(status.Challenges()); at != "" {
		fields = append(fields, zap.String("resource_metadata", quote(at)))
	}
	for _, h := range l.at.Header {
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

// loginAt returns the URL of the metadata that a login begins with, from the challenge in the refusal of a
// request without a token. It returns "" if err has no such challenge, or if the request had a token.
func loginAt(err error, header []mcp.Header) string {
	status, ok := errors.AsType[*upstream.StatusError](err)
	if !ok || slices.ContainsFunc(header, func(h mcp.Header) bool { return strings.EqualFold(h.Name, "Authorization") }) {
		return ""
	}
	return oauthrelay.MetadataIn(status.Challenges())
}

// claimsOf returns the claims of a token that is a JWT, and an empty result for any other token. See
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
