package oauthrelay

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"
)

// goodFor is how long the server's endpoints count as known, and failedFor how long a
// failed attempt to read them is not repeated.
const (
	goodFor   = 5 * time.Minute
	failedFor = 10 * time.Second
	askFor    = 5 * time.Second
	maxIssued = 4 // authorization servers whose metadata is read
)

// has reports whether an endpoint is at this path of base, by which clients know the
// proxy. It ignores the scheme, which a proxy that ends TLS changes.
func (e *endpoints) has(base, path string) bool {
	_, host, _ := strings.Cut(base, "://")
	for _, u := range e.urls {
		if strings.EqualFold(withoutPort(u.Host), withoutPort(host)) && u.EscapedPath() == path {
			return true
		}
	}
	return e.unlisted && (path == "/authorize" || path == "/token" || path == "/register")
}

// withoutPort returns host without the default port of http or https.
func withoutPort(host string) string {
	return strings.TrimSuffix(strings.TrimSuffix(host, ":443"), ":80")
}

// endpoints returns the endpoints of the server. Concurrent callers share one request. A
// caller whose ctx ends gets none.
func (r *Relay) endpoints(ctx context.Context) *endpoints {
	r.learned.mu.Lock()
	last, fresh := r.learned.last, time.Now().Before(r.learned.until)
	r.learned.mu.Unlock()
	if fresh {
		return &last
	}
	ch := r.learning.DoChan("", func() (any, error) {
		ctx, cancel := context.WithTimeout(context.Background(), askFor)
		defer cancel()
		found, err := r.learn(ctx)
		r.learned.mu.Lock()
		defer r.learned.mu.Unlock()
		r.learned.until = time.Now().Add(goodFor)
		if err != nil { // what was known before stays valid
			r.learned.until = time.Now().Add(failedFor)
			return &r.learned.last, nil
		}
		r.learned.last = *found
		return found, nil
	})
	select {
	case done := <-ch:
		return done.Val.(*endpoints)
	case <-ctx.Done():
		return &endpoints{}
	}
}

// learn reads the metadata of the server's authorization servers, as far as the server
// itself has it.
func (r *Relay) learn(ctx context.Context) (*endpoints, error) {
	var resource resourceMetadata
	found := false
	for _, what := range [...]string{r.Server.EscapedPath(), ""} {
		ok, err := r.read(ctx, metadata[0]+what, &resource)
		if err != nil {
			return nil, err
		}
		if found = ok; ok {
			break
		}
	}
	issuers := []string{""}
	if found {
		issuers = issuers[:0]
		for _, s := range resource.Servers[:min(len(resource.Servers), maxIssued)] {
			if u, err := url.Parse(s); err == nil && (pathOf(u) == "" || strings.HasPrefix(pathOf(u), "/")) {
				issuers = append(issuers, pathOf(u))
			}
		}
	}
	e := &endpoints{unlisted: !found}
	for _, issuer := range issuers {
		ok, err := r.readServer(ctx, issuer, e)
		if err != nil {
			return nil, err
		}
		if ok {
			e.unlisted = false
		}
	}
	return e, nil
}

// pathOf returns the path of an issuer, or "" if it has none.
func pathOf(u *url.URL) string {
	if p := u.EscapedPath(); p != "/" {
		return p
	}
	return ""
}

// metadataOf returns the places of the metadata of an authorization server. issuer is the
// path of its issuer. See
// https://modelcontextprotocol.io/specification/2025-11-25/basic/authorization#authorization-server-metadata-discovery.
func metadataOf(issuer string) []string {
	places := []string{metadata[1] + issuer, openID + issuer}
	if issuer != "" {
		places = append(places, issuer+openID)
	}
	return places
}

// readServer adds the endpoints in the metadata of one authorization server.
func (r *Relay) readServer(ctx context.Context, issuer string, e *endpoints) (bool, error) {
	for _, at := range metadataOf(issuer) {
		var said map[string]json.RawMessage
		ok, err := r.read(ctx, at, &said)
		if err != nil {
			return false, err
		}
		if !ok {
			continue
		}
		for _, name := range [...]string{"authorization_endpoint", "token_endpoint", "registration_endpoint", "revocation_endpoint",
			"device_authorization_endpoint", "pushed_authorization_request_endpoint", "jwks_uri"} {
			var text string
			if json.Unmarshal(said[name], &text) != nil {
				continue
			}
			if u, err := url.Parse(text); err == nil && u.Host != "" && isPlain(u.EscapedPath()) {
				e.urls = append(e.urls, u)
			}
		}
		return true, nil
	}
	return false, nil
}

// read reads one document of metadata at the server's origin. It returns false if the
// server has none there.
func (r *Relay) read(ctx context.Context, path string, into any) (bool, error) {
	u, err := r.at(path, "")
	if err != nil {
		return false, err
	}
	body, err := r.fetch(ctx, u.String())
	return body != nil && json.Unmarshal(body, into) == nil, err
}

// fetch returns the body at a URL, or nil if the status is not 200.
func (r *Relay) fetch(ctx context.Context, at string) ([]byte, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, at, nil)
	if err != nil {
		return nil, err
	}
	req.Header.Set("Accept", "application/json")
	res, err := r.client.Do(req)
	if err != nil {
		return nil, err
	}
	defer res.Body.Close()
	body, err := io.ReadAll(io.LimitReader(res.Body, maxMetadata))
	if err != nil || res.StatusCode != http.StatusOK {
		return nil, err
	}
	return body, nil
}

// resourceMetadata has the members of a protected resource's metadata that are read:
// https://www.rfc-editor.org/rfc/rfc9728#section-2.
type resourceMetadata struct {
	Resource string   `json:"resource"`
	Servers  []string `json:"authorization_servers"`
	DPoP     bool     `json:"dpop_bound_access_tokens_required"`
	Bound    bool     `json:"tls_client_certificate_bound_access_tokens"`
}
