package file

import (
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/dragoman-proxy/dragoman/adapterrt/clean"
	"github.com/dragoman-proxy/dragoman/adapterrt/escape"
	"github.com/dragoman-proxy/dragoman/adapterrt/plaintext"
	"github.com/dragoman-proxy/dragoman/adapterrt/secret"
	"github.com/dragoman-proxy/dragoman/translate/wire"
)

// Target is where an adapter's API lives.
type Target struct {
	Base    *url.URL
	BaseURL string
	Origin  string // scheme://host:port, always with a port
	Path    string // the base path, escaped, without a slash at its end
	Prefix  string // the beginning of every URL, up to the slash of the operation's path
	Outside bool   // the base URL comes from the environment or from another file
	graphql bool
	Form    bool
	Headers []Header
	Timeout time.Duration
	Retries int
	Delay   time.Duration

	Redirects Redirects
}

// Header is one header of a request or response.
type Header struct{ Name, Value string }

// Redirects says which redirects of a GET are followed.
type Redirects struct {
	Said       bool     // the file says which; otherwise the operator's option decides
	SameOrigin bool     // redirects within the API's origin
	Hosts      []string // redirects to these hosts, without credentials: host names, or *.example.com
}

// Allows reports whether a redirect to a host of another origin is followed.
func (r *Redirects) Allows(host string) bool {
	host = strings.ToLower(host)
	return slices.ContainsFunc(r.Hosts, func(pattern string) bool {
		if suffix, ok := strings.CutPrefix(pattern, "*"); ok {
			return len(host) > len(suffix) && strings.HasSuffix(host, suffix)
		}
		return host == pattern
	})
}

var targetBlock = block{"target", "", []key{
	{"base_url", "URL", must, "The URL that all paths are appended to: https, without a slash at its end, a query or user information. http is for localhost and `adapters.network.insecure_hosts`."},
	{"base_url_env", "variable", "", "The URL is read from there when the file is loaded, and counts before `base_url`, which may then be absent."},
	{"base_url_file", "file", "", ""},
	{"transport", "http", must, "The word http."},
	{"protocol", "rest, graphql", must, "With graphql, each operation has a `query`."},
	{"serialization", "json, form", must, "The format of bodies, unless `request.as` says another."},
	{"headers", "map", "", "Headers of every request: name and value. No credentials."},
	{"headers_env", "map", "", "Headers whose values are secrets: the variable or the file of each."},
	{"headers_file", "map", "", ""},
	{"timeout_ms", "integer 1–600000", "30000", "Milliseconds that a call may take."},
	{"retries", "integer 0–10", "0", "How often a request that is safe to repeat is sent again."},
	{"retry_delay_ms", "integer 0–60000", "1000", "Milliseconds before the first repetition."},
	{"redirects", "none, same_origin, or list of host names", "", "Which redirects of a GET are followed. Without it, `adapters.network.redirects` decides."},
}}

func (c *checker) target(root *node, t *Target) {
	n := c.block(root, "target", "Target")
	if n == nil {
		return
	}
	c.known(n, "target", &targetBlock)
	c.base(n, t)
	c.plugin(n, "transport", "Transport", []string{"http"}, []string{"websocket", "serial", "native"})
	t.graphql = c.plugin(n, "protocol", "Protocol", []string{"rest", "graphql"}, []string{"jsonrpc", "grpc", "custom"}) == "graphql"
	t.Form = c.plugin(n, "serialization", "Serialization", []string{"json", "form"}, []string{"xml", "protobuf", "msgpack", "multipart"}) == "form"
	t.Headers = c.headers(n, "target")
	t.Timeout = c.millis(n, "target", "timeout_ms", 30_000, 1, 600_000)
	t.Redirects = c.redirects(n)
	t.Retries = c.whole(n, "target", "retries", 0, 0, 10)
	t.Delay = c.millis(n, "target", "retry_delay_ms", 1000, 0, 60_000)
}

// plugin reads the member key of the target, which must be one of have. later are values of
// the specification that this runtime does not support.
func (c *checker) plugin(n *node, key, what string, have, later []string) string {
	s, v := c.need(n, "target", key, what)
	if v == nil || slices.Contains(have, s) {
		return s
	}
	msg := what + " is unknown"
	if slices.Contains(later, s) {
		msg = what + " " + s + " is known, not supported"
	}
	c.wrong(PluginNotFound, "target."+key, msg, strings.Join(have, ", "), v, 0)
	return ""
}

// base reads the base URL of the API. base_url_env and base_url_file count before base_url.
func (c *checker) base(n *node, t *Target) {
	for _, key := range [...]string{"base_url_env", "base_url_file"} {
		v := n.get(key)
		if v == nil || v.kind == wire.Null {
			continue
		}
		from := Credential{File: c.place(v)}
		if key == "base_url_env" {
			from = c.variable(v, "target."+key, key, v.line)
		} else if !isPath(v) {
			c.wrong(SchemaInvalidValue, "target."+key, key+" is not valid", "path of a file", v, 0)
			return
		}
		if from == (Credential{}) {
			return
		}
		switch s, err := c.outside(from); {
		case err != nil:
			c.wrong(SchemaInvalidValue, "target."+key, key+": "+ReadProblem(err), "a file that can be read", v, 0)
			return
		case s != "":
			// A problem does not show the text, because it may be something else, such as a secret.
			c.baseURL(s, "target."+key, v.hidden(), t)
			t.Outside = true
			return
		case n.get("base_url") == nil:
			c.wrong(SchemaMissingField, "target."+key, "there is nothing in "+from.String()+", and no base_url", "URL of the API in it", v, 0)
			return
		}
	}
	if s, v := c.need(n, "target", "base_url", "Base URL"); v != nil {
		c.baseURL(s, "target.base_url", v, t)
	}
}

// outside returns the text of a variable or a file, or "" if there is none.
func (c *checker) outside(from Credential) (string, error) {
	if from.File != "" {
		b, err := ReadFile(from.File)
		return strings.TrimSpace(string(plaintext.Of(b))), err
	}
	if c.opt.Getenv == nil {
		return "", nil
	}
	text, _ := c.opt.Getenv(from.Env)
	return strings.TrimSpace(text), nil
}

func (c *checker) baseURL(s, path string, v *node, t *Target) {
	bad := func(msg, expected string) {
		c.wrong(SchemaInvalidValue, path, msg, expected, v, 0)
	}
	for i := range len(s) {
		if s[i] <= ' ' || s[i] == 0x7f || s[i] == '\\' {
			bad("base_url contains a character that a URL must not have", "absolute URL")
			return
		}
	}
	u, err := url.Parse(s)
	switch {
	case err != nil || u.Hostname() == "" || u.Opaque != "":
		bad("base_url is not an absolute URL", "https://host/path")
	case u.Scheme != "https" && u.Scheme != "http":
		bad("base_url must be https", "https://…")
	case u.User != nil:
		v = v.hidden() // the text may contain a password
		bad("base_url must not hold user information", "no user:password@")
	case strings.ContainsAny(s, "?#"):
		bad("base_url must not hold a query or fragment", "no ? and no #")
	case strings.HasSuffix(s, "/"):
		bad("base_url must not end with a slash", strings.TrimRight(s, "/"))
	case !isHost(u.Hostname()):
		bad("base_url has no valid host name", "ASCII host name or address")
	case !isPort(u):
		bad("base_url has no valid port", "1–65535")
	case slices.ContainsFunc(strings.Split(u.EscapedPath(), "/"), func(p string) bool { return escape.Climbs([]byte(p)) }):
		bad("base_url must not hold a segment . or ..", "no dot segments")
	case u.Scheme == "http" && !IsLocalHost(u.Hostname()) && !slices.Contains(c.opt.InsecureHosts, u.Hostname()):
		bad("base_url must be https; http is for localhost and hosts the operator allows", "https://…")
	default:
		t.Base, t.BaseURL, t.Origin, t.Path = u, s, OriginOf(u), u.EscapedPath()
		t.Prefix = u.Scheme + "://" + u.Host + t.Path
	}
}

// redirects reads which redirects the target block n allows.
func (c *checker) redirects(n *node) (r Redirects) {
	v := n.get("redirects")
	if v == nil || v.kind == wire.Null {
		return r
	}
	r.Said = true
	if v.kind == wire.String {
		r.SameOrigin = c.word(n, "target", "redirects", "none", "same_origin") == "same_origin"
		return r
	}
	r.SameOrigin = true
	for i, host := range c.strs(n, "target", "redirects") {
		name := strings.TrimPrefix(host, "*.")
		if !isHost(name) || name == "" || strings.Contains(name, "*") || name != host && !strings.Contains(name, ".") {
			c.wrong(SchemaInvalidValue, index("target.redirects", i), "not a host name", "host.example.com or *.example.com", v.list[i], 0)
		}
		r.Hosts = append(r.Hosts, strings.ToLower(host))
	}
	return r
}

// headers reads the headers with fixed values of the block n at path.
func (c *checker) headers(n *node, path string) []Header {
	m := c.get(n, path, "headers", wire.Object)
	if m == nil {
		return nil
	}
	var out []Header
	at := path + ".headers."
	for _, f := range m.fields {
		path := at + clean.FirstRunes(f.key, 60)
		switch {
		case !IsToken(f.key):
			c.wrong(SchemaInvalidValue, path, "header name is not valid", "RFC 9110 token", f.val, 0)
		case strings.EqualFold(f.key, "authorization") || strings.HasPrefix(strings.ToLower(f.key), "proxy-auth"):
			c.wrong(AuthConfigInvalid, path, "credentials belong to auth", "auth block", f.val.hidden(), 0)
		case IsForbiddenHeader(f.key):
			c.wrong(SchemaInvalidValue, path, "header must not be set", "any header but those of the connection", f.val, 0)
		case f.val.kind != wire.String && f.val.kind != wire.Number && f.val.kind != wire.Boolean:
			c.wrong(SchemaInvalidType, path, "header value must be a string", "string", f.val, 0)
		case !IsHeaderValue(f.val.text):
			c.wrong(SchemaInvalidValue, path, "header value must not hold control characters", "no CR, LF or NUL", f.val, 0)
		default:
			if secret.Named(f.key) {
				c.mind(SchemaEmbeddedCredential, path, "a header of this name is for auth; the file must not hold its value", f.line)
			}
			out = append(out, Header{f.key, strings.TrimSpace(f.val.text)})
		}
	}
	return out
}

// templates adds an error for ${NAME}. Other runtimes replace it, and this one would send it
// as it is.
func (c *checker) templates(n *node, path string) {
	if n == nil {
		return
	}
	if strings.HasSuffix(path, "_env") || strings.Contains(path, ".headers_env.") {
		return // takes the name of a variable, and says itself that this is none
	}
	if n.kind == wire.String && strings.Contains(n.text, "${") {
		c.wrong(SchemaInvalidValue, path, "${…} is not replaced here", "base_url_env, headers_env, or a key of auth that ends in _env", n.hidden(), n.line)
	}
	for i, e := range n.list {
		c.templates(e, index(path, i))
	}
	for _, f := range n.fields {
		c.templates(f.val, join(path, clean.FirstRunes(f.key, 60)))
	}
}
