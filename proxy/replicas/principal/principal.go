// Package principal says on whose behalf a request comes, as far as the configuration identifies
// clients.
package principal

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"strings"

	"github.com/tidwall/gjson"

	"github.com/dragoman-proxy/dragoman/proxy/config"
	"github.com/dragoman-proxy/dragoman/proxy/pipes/results"
	"github.com/dragoman-proxy/dragoman/proxy/replicas/sealed"
	"github.com/dragoman-proxy/dragoman/proxy/transport/downstream"
)

// Of returns the principal of a request: the listener token that admitted it, with a hash of the
// header that by selects if the request has that header. Requests of two principals share nothing.
func Of(req *downstream.Request, by string) string {
	if req.Header == nil {
		return req.Guest
	}
	value := req.Header(Header(by))
	if value == "" {
		return req.Guest
	}
	sum := sha256.Sum256([]byte(value))
	return req.Guest + "/" + base64.RawURLEncoding.EncodeToString(sum[:])
}

// Header returns the name of the header that names the principal.
func Header(by string) string {
	if h, ok := strings.CutPrefix(by, "header:"); ok {
		return h
	}
	return "Authorization"
}

// maxClaims is the greatest size of a token's claims that are read, in bytes.
const maxClaims = 8 << 10

// User returns the identity that may answer a question the server asks during a request of principal
// who. It is who itself or, where by names claims, a key of the listener token and the values of these
// claims, so that another token of the same user may answer. The claims are not verified, so they
// grant no other access. User returns who if the token lacks one of the claims, or has one twice or not
// as text.
func User(req *downstream.Request, by, who string) string {
	names := config.ClaimsOf(by)
	if names == nil || req.Header == nil {
		return who
	}
	text, ok := claimed(req.Header("Authorization"), names)
	if !ok {
		return who
	}
	sum := results.KeyOf("claims", req.Guest, text)
	return "claims " + string(sum[:])
}

// claimed returns a text that stands for the values of these claims in a bearer token. It returns
// false unless the token has each of them once and as a string.
func claimed(authorization string, names []string) (string, bool) {
	claims, ok := readClaims(authorization)
	if !ok {
		return "", false
	}
	var parts []string
	for _, name := range names {
		value, found := "", 0
		gjson.Parse(claims).ForEach(func(is, v gjson.Result) bool {
			if is.String() == name {
				found++
				if v.Type != gjson.String {
					found++
				}
				value = v.String()
			}
			return true
		})
		if found != 1 || value == "" {
			return "", false
		}
		parts = append(parts, name, value)
	}
	sum := results.KeyOf(parts...)
	return string(sum[:]), true
}

// readClaims returns the claims of a bearer token that is a signed JWT, see
// https://www.rfc-editor.org/rfc/rfc7519#section-3. It does not verify them.
func readClaims(authorization string) (claims string, ok bool) {
	scheme, token, ok := strings.Cut(authorization, " ")
	if !ok || !strings.EqualFold(scheme, "Bearer") {
		return "", false
	}
	parts := strings.Split(token, ".")
	if len(parts) != 3 || base64.RawURLEncoding.DecodedLen(len(parts[1])) > maxClaims || strings.ContainsAny(parts[1], "\r\n") {
		return "", false
	}
	text, err := base64.RawURLEncoding.Strict().DecodeString(parts[1])
	if err != nil || !gjson.ValidBytes(text) || !gjson.ParseBytes(text).IsObject() {
		return "", false
	}
	return string(text), true
}

// Owner returns the mark of the client that sent a request with these headers. guest identifies the
// listener token that admitted it. by is the setting that tells principals apart.
func Owner(by, guest string, header func(name string) string) (m sealed.Owner) {
	who := ""
	if header != nil {
		if name, ok := strings.CutPrefix(by, "header:"); ok {
			who = header(name)
		} else if names := config.ClaimsOf(by); names != nil {
			who, _ = claimed(header("Authorization"), names)
		}
	}
	if guest == "" && who == "" {
		return m
	}
	b := make([]byte, 0, 256)
	b = append(append(append(append(b, "owner\x00"...), guest...), 0), who...)
	sum := sha256.Sum256(b)
	copy(m[:], sum[:])
	return m
}

// Mark returns a hash that stands for the value of an Authorization header and does not reveal it.
// It returns "" for "".
func Mark(authorization string) string {
	if authorization == "" {
		return ""
	}
	sum := sha256.Sum256([]byte(authorization))
	return hex.EncodeToString(sum[:])
}
