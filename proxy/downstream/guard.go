package downstream

import (
	"bytes"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"strings"

	"github.com/valyala/fasthttp"
)

// tokenHeader has the token if Authorization is for the server.
const tokenHeader = "X-Dragoman-Token"

// tokenList has the hashes of the valid tokens. They have equal length, so that they
// can be compared in constant time.
type tokenList [][sha256.Size]byte

func newTokenList(tokens []string) tokenList {
	var l tokenList
	for _, t := range tokens {
		l = append(l, sha256.Sum256([]byte(t)))
	}
	return l
}

// has reports whether a token is valid, and returns its hash.
func (l tokenList) has(token []byte) (sum [sha256.Size]byte, ok bool) {
	sum = sha256.Sum256(token)
	found := 0
	for i := range l {
		found |= subtle.ConstantTimeCompare(l[i][:], sum[:])
	}
	return sum, found == 1 && len(token) > 0
}

// checkToken checks the token of a request, if one is needed, and asks the client for one in the response.
//
// See https://www.rfc-editor.org/rfc/rfc6750 for both headers.
func (h *HTTP) checkToken(ctx *fasthttp.RequestCtx, c *conn) *refusal {
	r := h.readToken(&ctx.Request.Header, c)
	if r != nil {
		challenge := "Bearer"
		if r == badToken {
			challenge = `Bearer error="invalid_token"`
		}
		ctx.Response.Header.Set(fasthttp.HeaderWWWAuthenticate, challenge)
	}
	return r
}

// readToken stores the hash of a request's token in c, if one is needed. A token in
// Authorization is for the listener and not for the server: readToken removes it.
func (h *HTTP) readToken(header *fasthttp.RequestHeader, c *conn) *refusal {
	tokens := h.guests.Load().tokens
	c.guest, c.known = [sha256.Size]byte{}, len(tokens) > 0
	if !c.known {
		return nil
	}
	var ok bool
	if own := header.PeekAll(tokenHeader); len(own) > 0 {
		if len(own) == 1 {
			c.guest, ok = tokens.has(own[0])
		}
		if !ok {
			return badToken
		}
		return nil
	}
	fields := header.PeekAll(fasthttp.HeaderAuthorization)
	if len(fields) == 0 {
		return noToken
	}
	scheme, token, _ := bytes.Cut(fields[0], []byte{' '})
	if c.guest, ok = tokens.has(bytes.TrimSpace(token)); !ok || len(fields) > 1 || !strings.EqualFold(string(scheme), "Bearer") {
		return badToken
	}
	header.Del(fasthttp.HeaderAuthorization)
	return nil
}

// guestName identifies the token of the current request; "" if none is needed.
func (c *conn) guestName() string {
	if !c.known {
		return ""
	}
	return hex.EncodeToString(c.guest[:])
}

// GuestOf returns the [Request.Guest] of requests with a token.
func GuestOf(token string) string {
	sum := sha256.Sum256([]byte(token))
	return hex.EncodeToString(sum[:])
}

// headerOf returns a request header as handlers see it.
func headerOf(header *fasthttp.RequestHeader, name string) string {
	if strings.EqualFold(name, tokenHeader) {
		return "" // it is for the listener only
	}
	return string(header.Peek(name))
}

// dropToken removes a token of the listener from a request.
func (h *HTTP) dropToken(header *fasthttp.RequestHeader) {
	_, token, _ := bytes.Cut(header.Peek(fasthttp.HeaderAuthorization), []byte{' '})
	if _, ours := h.guests.Load().tokens.has(bytes.TrimSpace(token)); ours {
		header.Del(fasthttp.HeaderAuthorization)
	}
}
