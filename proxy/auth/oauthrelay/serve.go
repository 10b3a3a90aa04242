package oauthrelay

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/dragoman-proxy/dragoman/proxy/protocol/mcp"
	"github.com/dragoman-proxy/dragoman/proxy/transport/downstream"
)

// Serves reports whether requests to a path are for [Relay.Serve]. The path is escaped, as
// the client sent it, and without a query; base is as in [downstream.Request]. It may ask the
// server which endpoints it has.
func (r *Relay) Serves(ctx context.Context, base, path string) bool {
	switch {
	case !isPlain(path):
		return false
	case IsMetadata(path), slices.ContainsFunc(r.Paths, func(p string) bool { return matches(p, path) }):
		return true
	case r.Metadata:
		return false
	}
	if r.Public != nil {
		base = r.Public.Scheme + "://" + r.Public.Host
	}
	return r.endpoints(ctx).has(base, path)
}

// Serve forwards the request to the server and fills resp, in plain text if the request fails.
// req.Path includes the query. It returns an error if the server caused the failure, and a
// *MismatchError or a *CopyError for a response that was forwarded and that clients will refuse.
func (r *Relay) Serve(req *downstream.Request, resp *downstream.Response) error {
	path, query, _ := strings.Cut(req.Path, "?")
	what, of, isMetadata := described(path)
	methods, most := []string{"GET", "POST", "OPTIONS"}, maxPage
	if isMetadata {
		methods, most = []string{"GET", "HEAD", "OPTIONS"}, maxMetadata
	}
	switch {
	case !isPlain(path):
		Say(resp, http.StatusBadRequest, "the path of this request can be read in several ways, or not at all")
		return nil
	case !slices.Contains(methods, req.Method):
		Say(resp, http.StatusMethodNotAllowed, "this path accepts "+strings.Join(methods, ", "), mcp.Header{Name: "Allow", Value: strings.Join(methods, ", ")})
		return nil
	case len(req.Body) > maxRequest:
		Say(resp, http.StatusRequestEntityTooLarge, fmt.Sprintf("the body is larger than %d bytes", maxRequest))
		return nil
	}
	if !r.room.TryAcquire(1) {
		full(resp)
		return nil
	}
	took := int64(1)
	defer func() {
		if resp.Done == nil { // otherwise the answer is in memory until it was written
			r.room.Release(took)
		}
	}()
	ctx, cancel := context.WithTimeout(req.Ctx, timeLimit)
	defer cancel()
	a, err := r.ask(ctx, req, path, query, most, &took)
	if isMetadata && err == nil && a.status == http.StatusNotFound && what != r.Server.EscapedPath() && (what == r.Path || what == pathOf(r.known())) && what != "" {
		a, err = r.ask(ctx, req, of(r.Server.EscapedPath()), query, most, &took)
	}
	var noCopy error
	if r.Copy != nil && err == nil && a.status == http.StatusNotFound && path == metadata[1] && req.Method != http.MethodOptions {
		a, noCopy = r.forOldClients(ctx, req.Method, a)
	}
	switch {
	case err != nil && req.Ctx.Err() != nil: // the client has disconnected
		return nil
	case errors.Is(err, errFull):
		full(resp)
		return nil
	case errors.Is(err, errTooLarge):
		Say(resp, http.StatusBadGateway, err.Error())
	case errors.Is(err, context.DeadlineExceeded):
		Say(resp, http.StatusGatewayTimeout, fmt.Sprintf("the server behind this proxy did not answer within %v", timeLimit))
	case err != nil:
		Say(resp, http.StatusBadGateway, "the server behind this proxy cannot be reached")
	default:
		if r.Rewrite && r.isOwn(path, what) {
			a.rewrite(r.Public)
		}
		a.write(req, resp, isMetadata)
		resp.Done = func() { r.room.Release(took) }
		known := req.Base + r.Path
		if r.Public != nil {
			known = r.Public.String()
		}
		err = cmp.Or(a.compare(path, known), noCopy)
	}
	return err
}

// full refuses a request because there is no room for it.
func full(resp *downstream.Response) {
	Say(resp, http.StatusServiceUnavailable, "dragoman is forwarding too many OAuth requests; try again", mcp.Header{Name: "Retry-After", Value: "1"})
}

// compare returns a *MismatchError if the metadata is that of a protected resource and clients that use the URL known
// will refuse it.
func (a *answer) compare(path, known string) error {
	var said resourceMetadata
	if a.status == http.StatusOK && strings.HasPrefix(path, metadata[0]) && json.Unmarshal(a.body, &said) == nil && said.Resource != "" && !Covers(said.Resource, known) {
		return &MismatchError{said.Resource, known}
	}
	return nil
}

// write copies a to the response. Metadata is public: if the server does not say which pages may read it, all may
// (https://www.rfc-editor.org/rfc/rfc9728#section-3.1).
func (a *answer) write(req *downstream.Request, resp *downstream.Response, isMetadata bool) {
	resp.Status, resp.Body = a.status, a.body
	if isMetadata && req.Header("Origin") != "" && a.header.Get(allowOrigin) == "" {
		a.header.Set(allowOrigin, "*")
		if req.Method == http.MethodOptions {
			resp.Status, resp.Body = http.StatusNoContent, nil
			a.header = http.Header{allowOrigin: {"*"}, "Access-Control-Allow-Methods": {"GET, HEAD"}, "Access-Control-Allow-Headers": {"MCP-Protocol-Version"}}
		}
	}
	for name, values := range a.header {
		if !dropped[name] {
			for _, v := range values {
				resp.Header = append(resp.Header, mcp.Header{Name: name, Value: v})
			}
		}
	}
}

const allowOrigin = "Access-Control-Allow-Origin"

// A MismatchError says that clients will refuse the metadata that was forwarded: its resource is not the URL by which
// they know the server.
type MismatchError struct{ Resource, Known string }

func (e *MismatchError) Error() string {
	return fmt.Sprintf("the server's metadata is for %s, but clients use %s and will refuse it: set the server's public URL to %s", e.Resource, e.Known, e.Known)
}
