package config

import (
	"fmt"
	"net/url"
	"slices"
	"strings"

	"github.com/dragoman-proxy/dragoman/proxy/config/setting"
)

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
