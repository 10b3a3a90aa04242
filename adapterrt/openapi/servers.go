package openapi

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/dragoman-proxy/dragoman/adapterrt/file"
	"github.com/dragoman-proxy/dragoman/adapterrt/pattern"
)

var variable = pattern.Later(`\{([^{}]*)\}`)

// serverURL returns the URL of a server object with its variables replaced. A relative one is relative to the document, if that was
// read from a URL, otherwise to base, if there is one:
// https://spec.openapis.org/oas/v3.1.0#server-object
func (d *Document) serverURL(s *node, vars map[string]string, base string) (string, error) {
	var wrong error
	var missing []string
	inHost := false
	raw := strings.TrimSpace(s.str("url"))
	host := raw
	if i := strings.Index(raw, "://"); i >= 0 {
		if j := strings.IndexByte(raw[i+3:], '/'); j >= 0 {
			host = raw[:i+3+j]
		}
	}
	out := variable().ReplaceAllStringFunc(raw, func(m string) string {
		name := m[1 : len(m)-1]
		v := s.get("variables").get(name)
		value, given := vars[name]
		allowed := v.strs("enum")
		switch {
		case given && len(allowed) > 0 && !slices.Contains(allowed, value):
			wrong = cmp.Or(wrong, fmt.Errorf("server variable %s must be one of %s", short(name), short(strings.Join(allowed, ", "))))
		case given:
			return value
		case v.word("default") != "" && (len(allowed) > 0 || !strings.Contains(host, m)): // the document must not choose to which host credentials go
			return v.word("default")
		default:
			inHost = inHost || strings.Contains(host, m)
			if want := "--server-var " + short(name) + "=VALUE"; !slices.Contains(missing, want) {
				missing = append(missing, want)
			}
		}
		return ""
	})
	give := strings.Join(missing, " ")
	switch {
	case wrong != nil:
		return "", wrong
	case inHost:
		return "", fmt.Errorf("the host in %s depends on a variable: give %s", quoted(raw), give)
	case missing != nil:
		return "", fmt.Errorf("give %s for %s", give, quoted(raw))
	}
	return baseURL(d.located(s, out, base))
}

// located makes a server's URL absolute, where that is possible.
func (d *Document) located(s *node, server, base string) string {
	at := d.sources[s.file].path
	if !isURL(at) {
		at = d.sources[0].path
	}
	if !isURL(at) {
		at = base
	}
	from, err := url.Parse(at)
	if err != nil {
		return server
	}
	if strings.HasPrefix(server, "//") { // with the scheme of the document
		return cmp.Or(from.Scheme, "https") + ":" + server
	}
	to, err := url.Parse(server)
	if at == "" || err != nil || to.IsAbs() {
		return server
	}
	to = from.ResolveReference(to)
	to.RawQuery, to.Fragment = "", ""
	return to.String()
}

// baseURL checks a URL as adapters have it, without the slash at its end.
func baseURL(s string) (string, error) {
	s = strings.TrimRight(s, "/")
	u, err := url.Parse(s)
	switch {
	case err != nil:
		return "", fmt.Errorf("%s is not a URL", quoted(s))
	case s == "":
		return "", errors.New("the document does not say on which host its server is: give --server https://HOST")
	case u.Scheme == "" || u.Host == "":
		return "", fmt.Errorf("the server %s is relative: give --server %s", quoted(s), short(onHost(u)))
	case u.Scheme != "https" && u.Scheme != "http":
		return "", fmt.Errorf("the server %s is not an https URL", quoted(s))
	}
	return s, nil
}

// onHost returns a URL with the path of a relative server, to which a person adds the host.
func onHost(server *url.URL) string {
	if first, _, _ := strings.Cut(server.Path, "/"); strings.Contains(strings.Trim(first, "."), ".") {
		return "https://" + server.Path // a host without a scheme
	}
	base := &url.URL{Scheme: "https", Host: "HOST", Path: "/"}
	return strings.TrimRight(base.ResolveReference(&url.URL{Host: server.Host, Path: server.Path, RawPath: server.RawPath}).String(), "/")
}

// servers returns the server objects of the document. Those of Swagger 2.0 are made of host,
// basePath and schemes.
func (d *Document) servers() []*node {
	located := isURL(d.sources[0].path)
	if !d.swagger {
		list := d.root.list("servers")
		if len(list) == 0 && located {
			list = []*node{object(nil, "url", text("/"))}
		}
		return list
	}
	host, base := d.root.str("host"), d.root.str("basePath")
	if host == "" {
		return []*node{object(nil, "url", text(cmp.Or(base, "/")))}
	}
	schemes := d.root.strs("schemes")
	if len(schemes) == 0 {
		schemes = []string{"https"}
		if u, err := url.Parse("http://" + host); err == nil && file.IsLocalHost(u.Hostname()) || strings.HasPrefix(d.sources[0].path, "http://") {
			schemes = []string{"http"}
		}
	}
	var out []*node
	for _, s := range schemes {
		out = append(out, object(nil, "url", text(s+"://"+host+base)))
	}
	return out
}

// usual returns the servers of most of the operations that have servers of their own, or nil if one has none.
func usual(ops []*rawOperation) (servers []*node) {
	count, most := map[string]int{}, 0
	for _, op := range ops {
		if len(op.servers) == 0 {
			return nil
		}
		key := ""
		for _, s := range op.servers {
			key += s.str("url") + "\n"
		}
		if count[key]++; count[key] > most {
			servers, most = op.servers, count[key]
		}
	}
	return servers
}

// target decides where the API is.
func (d *Document) target(opt *Options, ops []*rawOperation) (*target, error) {
	t := &target{vars: opt.ServerVars}
	servers := d.servers()
	if err := unknownVariable(opt, servers, ops); err != nil {
		return nil, err
	}
	if own := usual(ops); own != nil && (len(d.root.list("servers")) == 0 || opt.Server == "") { // some documents have servers only beside paths
		servers = own
	}
	if n, err := strconv.Atoi(opt.Server); err == nil {
		if n < 1 || n > len(servers) {
			return nil, fmt.Errorf("--server %d: the document has %d servers", n, len(servers))
		}
		servers = servers[n-1 : n]
	} else if opt.Server != "" {
		if t.url, err = baseURL(opt.Server); err != nil {
			return nil, fmt.Errorf("--server: %w", err)
		}
		t.given = true
	}
	if t.url == "" {
		var s *node
		var err error
		if t.url, s, err = d.bestServer(servers, t); err != nil {
			return nil, err
		}
		if strings.HasPrefix(t.url, "https://") && len(opt.ServerVars) > 0 && variable().MatchString(s.str("url")) {
			t.env = envName(opt.Name, "URL")
		}
	}
	if t.url == "" {
		return nil, errors.New("the document names no server: give --server https://HOST")
	}
	return t, nil
}

// bestServer returns the first server with https, otherwise the first of all, and its URL. The error says why there is none; it is
// nil if the list is empty.
func (d *Document) bestServer(servers []*node, t *target) (best string, of *node, err error) {
	var wrong error
	for _, s := range servers {
		u, err := d.serverURL(s, t.vars, t.url)
		switch {
		case err != nil:
			wrong = cmp.Or(wrong, err)
		case strings.HasPrefix(u, "https://"):
			return u, s, nil
		case best == "":
			best, of = u, s
		}
	}
	if best == "" {
		return "", nil, wrong
	}
	return best, of, nil
}

// server decides where an operation is that has servers of its own. Below the adapter's base URL, its path is longer; elsewhere, it has
// a base URL of its own.
func (m *mapper) server() bool {
	for _, s := range m.raw.servers {
		u, err := m.doc.serverURL(s, m.base.vars, m.base.url)
		if err != nil {
			continue
		}
		if rest, ok := strings.CutPrefix(u, m.base.url); ok && (rest == "" || rest[0] == '/') {
			m.prefix = rest
			return true
		}
	}
	u, _, err := m.doc.bestServer(m.raw.servers, m.base)
	switch {
	case m.base.given:
		if err != nil {
			u = m.raw.servers[0].str("url")
		}
		m.weak("its own server, " + short(u) + ", is not used, because another one was given")
	case err != nil:
		m.drop("it has a server of its own: "+err.Error(), "")
		return false
	default:
		m.op.baseURL = u
		if to, err := url.Parse(u); err == nil && m.base.auth.kind != "none" && !m.base.isAt(to) && !m.op.anonymous {
			m.op.elsewhere = true
			m.find(Guessed, "its server is "+short(u)+", to which the credential is sent, too", "check it")
		}
	}
	return true
}

// isAt reports whether a URL has the origin of the target.
func (t *target) isAt(u *url.URL) bool {
	base, err := url.Parse(t.url)
	return err == nil && file.OriginOf(base) == file.OriginOf(u)
}

// unknownVariable returns an error for a variable that is given and that no server has.
func unknownVariable(opt *Options, servers []*node, ops []*rawOperation) error {
	if len(opt.ServerVars) == 0 || opt.again {
		return nil
	}
	known := map[string]bool{}
	add := func(list []*node) {
		for _, s := range list {
			for _, m := range variable().FindAllStringSubmatch(s.str("url"), -1) {
				known[m[1]] = true
			}
		}
	}
	add(servers)
	for _, op := range ops {
		add(op.servers)
	}
	for _, name := range slices.Sorted(maps.Keys(opt.ServerVars)) {
		if !known[name] {
			return fmt.Errorf("--server-var %s: no server of the document has this variable; they have: %s", short(name), short(cmp.Or(strings.Join(slices.Sorted(maps.Keys(known)), ", "), "none")))
		}
	}
	return nil
}
