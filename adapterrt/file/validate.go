package file

import (
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/dragoman-proxy/dragoman/adapterrt/clean"
	"github.com/dragoman-proxy/dragoman/adapterrt/escape"
	"github.com/dragoman-proxy/dragoman/adapterrt/pattern"
	"github.com/dragoman-proxy/dragoman/translate/wire"
)

// semVer: https://semver.org/#is-there-a-suggested-regular-expression-regex-to-check-a-semver-string
var semVer = pattern.Later(`^(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)(?:-((?:0|[1-9]\d*|\d*[A-Za-z-][0-9A-Za-z-]*)(?:\.(?:0|[1-9]\d*|\d*[A-Za-z-][0-9A-Za-z-]*))*))?(?:\+([0-9A-Za-z-]+(?:\.[0-9A-Za-z-]+)*))?$`)

var isoDate = pattern.Later(`^\d{4}-(?:0[1-9]|1[0-2])-(?:0[1-9]|[12]\d|3[01])(?:[Tt ]([01]\d|2[0-3]):[0-5]\d(?::(?:[0-5]\d|60)(?:[.,]\d+)?)?(?:[Zz]|[+-]\d{2}(?::?\d{2})?)?)?$`)

// shortDescription and longDescription are the recommended smallest and largest number of
// characters in an adapter's description.
const shortDescription, longDescription = 10, 200

// descriptionRunes is the largest number of runes in a text of a file that a model reads.
const descriptionRunes = 1000

// adapter checks and compiles the whole front matter.
func (c *checker) adapter(root *node) *Adapter {
	if root.kind != wire.Object {
		c.wrong(SchemaParseError, "", "front matter must be a map", "map", root, 0)
		return nil
	}
	a := &Adapter{File: c.file, Index: map[string]*Operation{}}
	keys := append([]string{"name", "type", "version", "description", "target", "auth", "operations", "author", "tags", "triggers",
		"created", "modified", "trust", "rate_limits", "breaker", "transform", "types", "presets", "error_mapping", "error_codes", "shared_parameters"}, elsewhere...)
	c.misspelt(root, "", keys, []string{"trust"})
	c.later(root, "", "error_codes", "shared_parameters")
	a.errors = c.errorRules(root, "")
	c.secrets(root, "")

	if name, n := c.need(root, "", "name", "Adapter name"); n != nil {
		a.Name = name
		if !isAdapterName(name) {
			c.wrong(SchemaInvalidName, "name", "Adapter name is not valid", "2–64 characters of a-z, 0-9 and -, starting with a letter, not ending with -", n, 0)
		} else if c.file != "" && filepath.Base(c.file) != name+"-adapter.md" {
			c.mind(SchemaInvalidName, "name", "file should be called "+name+"-adapter.md", n.line)
		}
	}
	if typ, n := c.need(root, "", "type", "Type"); n != nil && typ != "adapter" {
		c.wrong(SchemaInvalidValue, "type", "type must be adapter", "adapter", n, 0)
	}
	if v := root.get("version"); v != nil && v.kind == wire.Number {
		c.wrong(SchemaInvalidType, "version", `version must be a string: quote it, "1.0.0"`, "string", v, 0)
	} else if version, n := c.need(root, "", "version", "Version"); n != nil {
		if a.Version = version; len(version) > 256 || !semVer().MatchString(version) {
			c.wrong(SchemaInvalidValue, "version", "version is not a semantic version", "MAJOR.MINOR.PATCH as of semver.org", n, 0)
		}
	}
	if d, n := c.need(root, "", "description", "Description"); n != nil {
		a.Description = clean.Text(d, descriptionRunes)
		if l := utf8.RuneCountInString(strings.TrimSpace(d)); l < shortDescription || l > longDescription {
			c.warn(SchemaInvalidValue, "description", fmt.Sprintf("description should have %d–%d characters, it has %d", shortDescription, longDescription, l), n.line)
		}
	}
	a.Author = c.str(root, "", "author")
	a.Tags = c.strs(root, "", "tags")
	a.Triggers = c.strs(root, "", "triggers")
	a.Created = c.date(root, "created")
	a.Modified = c.date(root, "modified")
	c.target(root, &a.Target)
	c.auth(root, a)
	c.secretHeaders(root, a)
	c.templates(root.get("target"), "target")
	c.templates(root.get("auth"), "auth")
	if b := a.Target.Base; (a.Auth.Kind != AuthNone || a.Auth.Also != nil) && b != nil && b.Scheme == "http" && !isLocalHost(b.Hostname()) {
		c.wrong(AuthConfigInvalid, "auth", "credentials go over https only, or to localhost", "none, or an https base_url", nil, root.get("target").line)
	}
	if a.Auth.Mutual != nil && len(a.Target.Redirects.Hosts) > 0 {
		c.wrong(AuthConfigInvalid, "target.redirects", "a client certificate would be shown to other hosts", "same_origin", nil, root.get("target").line)
	}
	a.Limits = c.limits(root, "")
	a.Breaker = c.breaker(root)
	c.trust(root, a)
	c.presets(root, a)
	c.types(root, a)
	if t := c.get(root, "", "transform", wire.Object); t != nil {
		a.transform = t.JSON(nil)
	}
	c.operations(root, a)
	if c.notOurs(root, "") {
		a.DeclaresDanger = true
		for _, op := range a.Operations {
			op.Danger.Confirm = op.Danger.Confirm || op.Category != Read
		}
	}
	return a
}

func isAdapterName(s string) bool {
	if len(s) < 2 || len(s) > 64 || s[0] < 'a' || s[0] > 'z' || s[len(s)-1] == '-' {
		return false
	}
	for i := range len(s) {
		if c := s[i]; (c < 'a' || c > 'z') && (c < '0' || c > '9') && c != '-' {
			return false
		}
	}
	return true
}

func (c *checker) date(root *node, key string) string {
	v := c.get(root, "", key, wire.String)
	if v == nil {
		return ""
	}
	if !isoDate().MatchString(v.text) {
		c.warn(SchemaInvalidValue, key, key+" is not an ISO 8601 date", v.line)
	}
	return v.text
}

func (c *checker) target(root *node, t *Target) {
	n := c.get(root, "", "target", wire.Object)
	if n == nil {
		if v := root.get("target"); v == nil || v.kind == wire.Null {
			c.missing(root, "", "target", "Target", v)
			c.problems[len(c.problems)-1].Expected = "object"
		}
		return
	}
	c.known(n, "target", "base_url", "base_url_env", "base_url_file", "transport", "protocol", "serialization", "headers", "headers_env", "headers_file",
		"timeout_ms", "retries", "retry_delay_ms", "redirects")
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
		from := Credential{File: v.text}
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
	text := ""
	if from.File != "" {
		b, err := ReadFile(from.File)
		if err != nil {
			return "", err
		}
		text = string(b)
	} else if c.opt.Getenv != nil {
		text, _ = c.opt.Getenv(from.Env)
	}
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
	case u.Scheme == "http" && !isLocalHost(u.Hostname()) && !slices.Contains(c.opt.InsecureHosts, u.Hostname()):
		bad("base_url must be https; http is for localhost and hosts the operator allows", "https://…")
	default:
		t.Base, t.BaseURL, t.Origin, t.Path = u, s, OriginOf(u), u.EscapedPath()
		t.Prefix = u.Scheme + "://" + u.Host + t.Path
	}
}

func isHost(h string) bool {
	if strings.Contains(h, ":") {
		a, err := netip.ParseAddr(h)
		return err == nil && a.Zone() == ""
	}
	return isWord(h, "-._") && len(h) <= 253
}

func isPort(u *url.URL) bool {
	if u.Port() == "" {
		return !strings.HasSuffix(u.Host, ":")
	}
	p, err := strconv.Atoi(u.Port())
	return err == nil && p > 0 && p < 1<<16
}

// isLocalHost reports whether h is a name or address of this machine.
func isLocalHost(h string) bool {
	h = strings.ToLower(h)
	if h == "localhost" || strings.HasSuffix(h, ".localhost") {
		return true
	}
	a, err := netip.ParseAddr(h)
	return err == nil && a.IsLoopback()
}

// OriginOf returns scheme, host and port of u, always with a port.
func OriginOf(u *url.URL) string {
	port := u.Port()
	if port == "" {
		port = "443"
		if u.Scheme == "http" {
			port = "80"
		}
	}
	return u.Scheme + "://" + net.JoinHostPort(strings.ToLower(u.Hostname()), port)
}

// forbiddenHeaders belong to the transport or to auth.
var forbiddenHeaders = []string{"host", "content-length", "transfer-encoding", "connection", "upgrade", "te", "trailer", "cookie", "authorization"}

// IsForbiddenHeader reports whether a parameter must not be sent in the header of that name.
func IsForbiddenHeader(name string) bool {
	name = strings.ToLower(name)
	return slices.Contains(forbiddenHeaders, name) || strings.HasPrefix(name, "proxy-")
}

// IsToken reports whether s is a token as HTTP defines it for the names of headers:
// https://www.rfc-editor.org/rfc/rfc9110#section-5.6.2
func IsToken(s string) bool { return isWord(s, "!#$%&'*+-.^_`|~") }

// IsHeaderValue reports whether v has no control characters, with which it could start another
// header.
func IsHeaderValue[T string | []byte](v T) bool {
	for i := range len(v) {
		if c := v[i]; c < ' ' && c != '\t' || c == 0x7f {
			return false
		}
	}
	return true
}

// holdsCredential reports whether name looks like the name of a header for a secret.
func holdsCredential(name string) bool {
	name = strings.NewReplacer("-", "", "_", "").Replace(strings.ToLower(name))
	return slices.ContainsFunc([]string{"apikey", "token", "secret", "password"}, func(s string) bool { return strings.Contains(name, s) })
}

// secretHeaders reads headers whose values are kept in the environment or in files.
func (c *checker) secretHeaders(root *node, a *Adapter) {
	n := root.get("target")
	for _, key := range [...]string{"headers_env", "headers_file"} {
		m := c.get(n, "target", key, wire.Object)
		if m == nil {
			continue
		}
		if len(m.fields) > maxAlso {
			c.wrong(SchemaInvalidValue, "target."+key, "too many headers", fmt.Sprintf("up to %d", maxAlso), m, 0)
			continue
		}
		for _, f := range m.fields {
			at := "target." + key + "." + clean.FirstRunes(f.key, 60)
			if !IsCredentialHeader(f.key) {
				c.wrong(SchemaInvalidValue, at, "header name is not valid", "RFC 9110 token, none of the connection's", f.val, f.line)
				continue
			}
			s := Scheme{Kind: authKey, Header: f.key}
			switch {
			case key == "headers_env":
				s.Value = c.variable(f.val, at, "a variable", f.line)
			case isPath(f.val):
				s.Value.File = f.val.text
			default:
				c.wrong(SchemaInvalidValue, at, "path is not valid", "path of a file", f.val, f.line)
			}
			c.beside(&a.Auth, s, at, f.val)
		}
	}
}

// templates adds an error for ${NAME}. Other runtimes replace it, and this one would send it
// as it is.
func (c *checker) templates(n *node, path string) {
	if n == nil {
		return
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
			c.wrong(AuthConfigInvalid, path, "credentials belong to auth", "auth block", &node{kind: wire.Object, line: f.line}, 0)
		case IsForbiddenHeader(f.key):
			c.wrong(SchemaInvalidValue, path, "header must not be set", "any header but those of the connection", f.val, 0)
		case f.val.kind != wire.String && f.val.kind != wire.Number && f.val.kind != wire.Boolean:
			c.wrong(SchemaInvalidType, path, "header value must be a string", "string", f.val, 0)
		case !IsHeaderValue(f.val.text):
			c.wrong(SchemaInvalidValue, path, "header value must not hold control characters", "no CR, LF or NUL", f.val, 0)
		default:
			if holdsCredential(f.key) {
				c.mind(SchemaEmbeddedCredential, path, "a header of this name is for auth; the file must not hold its value", f.line)
			}
			out = append(out, Header{f.key, strings.TrimSpace(f.val.text)})
		}
	}
	return out
}
