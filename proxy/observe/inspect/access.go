package inspect

import (
	"bytes"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"strings"

	"github.com/valyala/fasthttp"
)

// NewToken returns a random token.
func NewToken() string { return rand.Text() + rand.Text()[:6] }

// ContentSecurityPolicy keeps the page from loading or sending anything elsewhere, whatever a message holds: messages are hostile input.
const ContentSecurityPolicy = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src data:; base-uri 'none'; " +
	"form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'"

func secure(c *fasthttp.RequestCtx) {
	header := &c.Response.Header
	header.Set(fasthttp.HeaderContentSecurityPolicy, ContentSecurityPolicy)
	header.Set(fasthttp.HeaderXContentTypeOptions, "nosniff")
	header.Set(fasthttp.HeaderReferrerPolicy, "no-referrer")
	header.Set("Cross-Origin-Resource-Policy", "same-origin")
	header.Set("Cross-Origin-Opener-Policy", "same-origin")
}

func refuse(c *fasthttp.RequestCtx, status int, why string) {
	c.SetStatusCode(status)
	c.SetContentType("text/plain; charset=utf-8")
	c.SetBodyString(why + "\n")
}

// refuses returns the status and the text for a request that is not allowed, or 0.
func (h *Handler) refuses(c *fasthttp.RequestCtx) (status int, why string) {
	header := &c.Request.Header
	hosts := header.PeekAll(fasthttp.HeaderHost)
	switch site := string(header.Peek("Sec-Fetch-Site")); {
	case len(hosts) != 1 || !h.o.AllowsHost(string(hosts[0]), c.LocalAddr()):
		return fasthttp.StatusForbidden, "this Host is not allowed: use the address that dragoman has printed, or add the name to allowed_hosts"
	case site != "" && site != "same-origin" && site != "none":
		return fasthttp.StatusForbidden, "pages of other origins may not read this"
	case !c.IsGet():
		c.Response.Header.Set(fasthttp.HeaderAllow, "GET")
		return fasthttp.StatusMethodNotAllowed, "only GET is served"
	}
	return 0, ""
}

func (h *Handler) hasToken(c *fasthttp.RequestCtx) bool { return h.o.Token != "" && bears(c, h.token) }

// bears reports whether the request has the text with this sum as its token. It compares in constant time.
func bears(c *fasthttp.RequestCtx, want [sha256.Size]byte) bool {
	fields := c.Request.Header.PeekAll(fasthttp.HeaderAuthorization)
	if len(fields) != 1 {
		return false
	}
	scheme, token, _ := bytes.Cut(fields[0], []byte{' '})
	sum := sha256.Sum256(bytes.TrimSpace(token))
	return subtle.ConstantTimeCompare(sum[:], want[:]) == 1 && strings.EqualFold(string(scheme), "Bearer")
}
