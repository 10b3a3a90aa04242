package doctor

import (
	"net/http"
	"net/url"
	"path"
	"slices"
	"strings"

	"github.com/dragoman-proxy/dragoman/proxy/config"
)

// afterRedirect says what to do about a redirect. Its target is worth a try as upstream.url only if it is an endpoint of the
// same kind: a temporary redirect, and each one to another kind of page, may be the login page of a gateway. lent is the
// setting whose credential the request carried; "" for none.
func afterRedirect(status int, at, to *url.URL, lent string) string {
	permanent := status == http.StatusMovedPermanently || status == http.StatusPermanentRedirect
	alike := path.Clean("/"+to.Path) == path.Clean("/"+at.Path)
	here := strings.EqualFold(to.Hostname(), at.Hostname())
	moved := permanent && (path.Base(to.Path) == path.Base(at.Path) || slices.Contains([]string{"mcp", "sse"}, path.Base(to.Path)))
	switch {
	case alike && here && at.Scheme == "https" && to.Scheme == "http" && to.Path != at.Path:
		other := *at
		other.Path, other.RawPath = to.Path, to.RawPath
		return "use " + config.SafeURL(other.String()) + " (upstream.url); the server does not know that its clients use https: its own settings for a proxy in front of it are wrong"
	case at.Scheme == "https" && to.Scheme == "http":
		return "do not follow it: the target is not encrypted. The server's settings for a proxy in front of it may be wrong: its public URL must be https"
	case alike && here, moved: // a slash at the end, https, or a new place
		if to.RawQuery == "" && at.RawQuery != "" {
			return "use it as the URL (upstream.url), with the query of this one"
		}
		return "use it as the URL (upstream.url)"
	}
	if lent != "" {
		return "if that is the server, use it as the URL (upstream.url); if a login page, the server, or a gateway before it, refuses the credential of " + lent
	}
	return "if that is the server, use it as the URL (upstream.url); if a login page, --header 'Authorization: Bearer ${TOKEN}' (upstream.headers), or what the gateway takes"
}
