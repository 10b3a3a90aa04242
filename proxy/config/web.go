package config

import (
	"fmt"
	"net/url"
	"slices"
	"strings"

	"github.com/dragoman-proxy/dragoman/proxy/config/setting"
)

func (c *OAuth) validate(upstream *Upstream) error {
	var all setting.Mistakes
	if upstream.AtSocket() {
		for _, s := range []struct {
			key string
			set bool
		}{{"old_clients", c.OldClients}, {"rewrite", c.Rewrite}, {"paths", len(c.Paths) > 0}} {
			if s.set {
				all.Addf("oauth."+s.key, "applies only to a server at an http or https URL")
			}
		}
		return all.Err()
	}
	if c.OldClients && (c.Relay == "none" || upstream.URL == "") {
		all.Addf("oauth.old_clients", "applies only to upstream.url, with oauth.relay: metadata or oauth")
	}
	if at, err := url.Parse(c.PublicURL); c.PublicURL != "" && (err != nil || at.Host == "" || at.Scheme != "https" && at.Scheme != "http" || at.User != nil || at.RawQuery != "" || at.Fragment != "") {
		all.Addf("oauth.public_url", "%q is not an http or https URL without a query", c.PublicURL)
	}
	switch {
	case !c.Rewrite:
	case c.Relay == "none" || upstream.URL == "":
		all.Addf("oauth.rewrite", "applies only to upstream.url, with oauth.relay: metadata or oauth")
	case c.PublicURL == "":
		all.Addf("oauth.public_url", "is missing; oauth.rewrite needs it")
	case upstream.Auth.Lends():
		all.Addf("oauth.rewrite", "cannot be set together with upstream.auth, with which clients do not log in")
	}
	for _, p := range c.Paths {
		begin := strings.TrimSuffix(p, "*")
		switch {
		case !strings.HasPrefix(p, "/"):
			all.Addf("oauth.paths", "%q does not begin with /", p)
		case strings.Contains(begin, "*"):
			all.Addf("oauth.paths", "%q has a * that is not at its end", p)
		case len(begin) < 2:
			all.Addf("oauth.paths", "%q is all that the server has; name the paths of its login pages", p)
		case c.Relay == "none":
			all.Addf("oauth.paths", "%q is not relayed with oauth.relay: none", p)
		}
	}
	return all.Err()
}

// validateCORS checks the origins and headers. It refuses * if every web page could then use
// dragoman's credentials.
func (c *Config) validateCORS() error {
	var all setting.Mistakes
	for _, origin := range c.CORS.Origins {
		u, err := url.Parse(origin)
		switch {
		case origin == "*" && (len(c.Upstream.Headers) > 0 || c.Upstream.ClientCert != "" || c.Upstream.Auth.Lends()):
			all.Addf("cors.origins", "* lets every web page use the credentials in upstream; name the origins")
		case origin == "*":
		case err != nil || u.Scheme == "" || u.Host == "" || u.Scheme+"://"+u.Host != origin:
			all.Addf("cors.origins", "%q is neither an origin such as https://page.example:8443 nor *", origin)
		}
	}
	for _, name := range c.CORS.Headers {
		if !isHeaderName(name) {
			all.Addf("cors.headers", "%q is not a header name", name)
		}
	}
	return all.Err()
}

// healthPaths are those of HealthPaths that are always there.
var healthPaths = []string{"/healthz", "/ping"}

// Health returns the paths that answer while the process runs.
func (c *Config) Health() []string { return append(slices.Clip(healthPaths), c.HealthPaths...) }

// MessagesURI returns the path that clients on HTTP+SSE are told to post messages to.
func (c *Config) MessagesURI() string {
	public, err := url.Parse(c.OAuth.PublicURL)
	if err != nil {
		return MessagesPath
	}
	before, ok := strings.CutSuffix(strings.TrimSuffix(public.EscapedPath(), "/"), strings.TrimSuffix(c.Path, "/"))
	if !ok {
		before = "" // the gateway does not just put a path before ours
	}
	return before + MessagesPath
}

// validatePaths checks the paths of the listener, and returns all that are in use.
func (c *Config) validatePaths(all *setting.Mistakes) []string {
	taken := append([]string{"/livez", "/readyz", "/metrics", ReplicasPath, MessagesPath}, healthPaths...)
	check := func(at, path string) {
		switch plain := strings.TrimSuffix(path, "/"); {
		case !strings.HasPrefix(path, "/"):
			all.Addf(at, "%q does not begin with /", path)
		case strings.ContainsAny(path, "?#"):
			all.Addf(at, "%q is not a path: it holds ? or #", path)
		case slices.ContainsFunc(taken, func(other string) bool { return strings.TrimSuffix(other, "/") == plain }):
			all.Addf(at, "%q is taken", path)
		}
		taken = append(taken, path)
	}
	check("path", c.Path)
	check("sse_path", c.SSEPath)
	for i, path := range c.HealthPaths {
		at := fmt.Sprintf("health_paths[%d]", i)
		check(at, path)
		if len(path) > 1 && strings.HasSuffix(path, "/") {
			all.Addf(at, "%q ends in a slash", path)
		}
	}
	return taken
}
