package httpcall

import (
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"github.com/dragoman-proxy/dragoman/adapterrt/clean"
	"github.com/dragoman-proxy/dragoman/adapterrt/failure"
	"github.com/dragoman-proxy/dragoman/adapterrt/file"
	"github.com/dragoman-proxy/dragoman/translate/wire"
)

// follow returns the request to which a response redirects, or nil if the redirect is not
// followed. Only the API's own origin receives the headers of req. Another host receives only
// Accept and User-Agent, and so does every host to which it redirects.
func (c *Client) follow(t *file.Target, req *http.Request, res *http.Response) *http.Request {
	switch res.StatusCode {
	case 301, 302, 303, 307, 308:
	default:
		return nil
	}
	allowed := t.Redirects
	if !allowed.Said {
		allowed.SameOrigin = c.opt.SameOriginRedirects
	}
	if req.Method != "GET" || !allowed.SameOrigin {
		return nil
	}
	to, err := req.URL.Parse(res.Header.Get("Location"))
	if err != nil || to.Scheme != "https" || to.User != nil || to.Hostname() == "" || res.Header.Get("Location") == "" {
		return nil
	}
	to.Fragment, to.RawFragment = "", ""
	next := &http.Request{Method: "GET", URL: to, Host: to.Host, Header: req.Header, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1}
	next = next.WithContext(req.Context())
	if file.OriginOf(to) == t.Origin && file.OriginOf(req.URL) == t.Origin {
		return next
	}
	if file.OriginOf(to) != t.Origin && (!allowed.Allows(to.Hostname()) || to.Port() != "" && to.Port() != "443") {
		return nil
	}
	next.Header = http.Header{}
	for _, name := range [...]string{"Accept", "User-Agent"} {
		next.Header.Set(name, req.Header.Get(name))
	}
	return next
}

// redirected returns the failure for a redirect that was not followed, for status 304, and for
// a status below 200.
func (c *Call) redirected(r *Reply, z clean.Sanitizer) *failure.Failure {
	status := "HTTP " + strconv.Itoa(r.Status) + ": "
	f := &failure.Failure{Code: failure.InternalError, Message: status + "redirect not followed"}
	if r.Status < 300 || r.Status == 304 {
		f.Message = strings.TrimSuffix(status+http.StatusText(r.Status), ": ")
	}
	d := wire.Members(nil).Int("http_status", int64(r.Status)).Str("operation", c.Op.Name)
	if u, err := url.Parse(r.Header.Get("Location")); err == nil && u.Host != "" {
		d = d.Str("location_host", z.Clean(u.Hostname(), 253, c.Out.Secrets))
	}
	if location := c.location(r); location != "" && location[0] == '/' {
		d = d.Str("location", location)
	}
	if r.Status == 301 || r.Status == 308 {
		d = d.Bool("permanent", true)
	}
	f.Details = d.End()
	return f
}

// maxLocation is the largest number of bytes of a Location that a client receives.
const maxLocation = 2000

// location returns the Location of a response for a client: only path and query if it is in the
// API's origin. It returns "" if there is none, or none that a client may receive.
func (c *Call) location(r *Reply) string {
	t := c.Op.Target
	said := r.Header.Get("Location")
	if said == "" || len(said) > maxLocation || t.Base == nil {
		return ""
	}
	from, err := url.Parse(string(c.Out.URL.Text))
	if err != nil || len(c.Out.URL.Text) == 0 {
		from = t.Base
	}
	u, err := from.Parse(said)
	if err != nil || u.Scheme != "https" && u.Scheme != "http" {
		return ""
	}
	u.User, u.Fragment, u.RawFragment = nil, "", ""
	q, hidden := u.Query(), false
	for name := range q {
		if c.Op.Adapter.Auth.Hides(name) {
			q.Del(name)
			hidden = true
		}
	}
	if hidden {
		u.RawQuery = q.Encode()
	}
	text := u.String()
	if file.OriginOf(u) == t.Origin {
		text = u.RequestURI()
	}
	return clean.Text(clean.MaskSecrets(clean.MaskKnown(text, c.Out.Secrets)), maxLocation)
}
