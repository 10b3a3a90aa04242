package config

import (
	"slices"
	"strings"

	"github.com/dragoman-proxy/dragoman/proxy/config/setting"
)

// defaultPassed are the headers by which specifications let a server tell its client something in any response: RFC 9449 (DPoP), 8288, 9745
// and 8594, the drafts of draft-ietf-httpapi-ratelimit-headers, and Trace Context Level 2.
func defaultPassed() []string {
	return []string{
		"DPoP-Nonce", "Link", "Deprecation", "Sunset",
		"RateLimit", "RateLimit-Policy", "RateLimit-Limit", "RateLimit-Remaining", "RateLimit-Reset",
		"traceresponse",
	}
}

// neverPassed are headers that belong to a connection, to the origin of the server, or to what dragoman itself says, and the beginnings of
// the names of others.
var (
	neverPassed = []string{
		"Connection", "Keep-Alive", "Proxy-Connection", "Proxy-Authenticate", "Proxy-Authorization", "Proxy-Authentication-Info", "TE", "Trailer", "Transfer-Encoding", "Upgrade",
		"Set-Cookie", "Set-Cookie2", "Clear-Site-Data", "Strict-Transport-Security", "Alt-Svc", "Location", "Refresh",
		"WWW-Authenticate", "Retry-After", "Allow", "Cache-Control", "Date", "Vary", "Server-Timing", "X-Accel-Buffering",
	}
	neverPassedPrefixes = []string{"Access-Control-", "Content-", "Mcp-"}
)

// mostPassed bounds upstream.pass_headers.
const mostPassed = 50

func (u *Upstream) validatePassed(all *setting.Mistakes) {
	const at = "upstream.pass_headers"
	if len(u.PassHeaders) > mostPassed {
		all.Addf(at, "more than %d names", mostPassed)
		return
	}
	for i, name := range u.PassHeaders {
		same := func(other string) bool { return strings.EqualFold(other, name) }
		switch {
		case !isHeaderName(name):
			all.Addf(at, "%q is not a header name", name)
		case same("WWW-Authenticate"), same("Retry-After"):
			all.Addf(at, "%s is always passed with a refusal", name)
		case slices.ContainsFunc(neverPassed, same), slices.ContainsFunc(neverPassedPrefixes, func(prefix string) bool {
			return len(name) >= len(prefix) && strings.EqualFold(name[:len(prefix)], prefix)
		}):
			all.Addf(at, "%s is never passed: it belongs to the connection or to the server's own origin, or dragoman sets it", name)
		case slices.ContainsFunc(u.PassHeaders[:i], same):
			all.Addf(at, "%s occurs twice", name)
		}
	}
}

func isHeaderName(name string) bool {
	return name != "" && strings.Trim(strings.ToLower(name), "abcdefghijklmnopqrstuvwxyz0123456789-_.") == ""
}
