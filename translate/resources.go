package translate

import (
	"net/url"
	"strings"
	"unicode/utf8"

	"github.com/dragoman-proxy/dragoman/translate/wire"
)

// nameContents adds `name`, the last part of the URI, to the contents of a resource, for clients that show it. No revision has
// this member; the setting `contract.resource_contents_name: off` leaves it out (C41).
func nameContents(x *pass, contents wire.Node) {
	if contents.Kind() != '{' || contents.Get(wire.NameKey).OK() {
		return
	}
	uri, _ := contents.Get(wire.URI).Text()
	name := nameFromURI(string(x.unescaped(uri)))
	if name == "" {
		if x.t.options.ResourceContentsName == "strict" {
			x.fail(contents, &MissingRequiredField{Field: "name", Type: "ResourceContents"})
			return
		}
		x.lostAs("no name", contents, wire.Assumed) // nothing was there, and clients do without it
		return
	}
	x.lost(contents, wire.Debug)
	w := append(x.m.Writer(), `"name":"`...)
	contents.Add(append(wire.AppendQuotedInner(w, name), '"'))
}

// stripName removes `name` from the contents of a resource, which no revision has, as clients before 2025-06-18 do not expect
// it; with the setting `contract.resource_contents_name: off` it stays (C41).
func stripName(x *pass, name wire.Node) { strip(x, name) }

// nameFromURI returns the last part of the path that is not empty, percent-decoded. If the path has no such part,
// it returns the host. It returns "" if there is neither. In a URI without "//", everything behind the scheme is
// the path.
func nameFromURI(uri string) string {
	if i := strings.IndexAny(uri, "?#"); i >= 0 {
		uri = uri[:i]
	}
	rest := uri
	if i := schemeEnd(uri); i > 0 {
		rest = uri[i+1:]
	}
	host, path := "", rest
	if len(rest) >= 2 && rest[:2] == "//" {
		host, path = rest[2:], ""
		for i := 0; i < len(host); i++ {
			if host[i] == '/' {
				host, path = host[:i], host[i:]
				break
			}
		}
	}
	if name := lastPart(path); name != "" {
		return name
	}
	return hostName(host)
}

// schemeEnd returns the index of the colon behind a URI's scheme, or 0 if the URI has none.
func schemeEnd(uri string) int {
	for i := 0; i < len(uri); i++ {
		switch c := uri[i]; {
		case c|0x20-'a' <= 'z'-'a':
		case i > 0 && (c-'0' <= 9 || c == '+' || c == '-' || c == '.'):
		case c == ':':
			return i
		default:
			return 0
		}
	}
	return 0
}

func lastPart(path string) string {
	for end := len(path); end > 0; {
		start := end
		for start > 0 && path[start-1] != '/' {
			start--
		}
		if start < end {
			part := path[start:end]
			if decoded, err := url.PathUnescape(part); err == nil && utf8.ValidString(decoded) {
				return decoded
			}
			return part
		}
		end = start - 1
	}
	return ""
}

// hostName returns an authority without user and port.
func hostName(authority string) string {
	for i := len(authority) - 1; i >= 0; i-- {
		if authority[i] == '@' {
			authority = authority[i+1:]
			break
		}
	}
	for i := len(authority) - 1; i >= 0 && (authority[i]-'0' <= 9 || authority[i] == ':'); i-- {
		if authority[i] == ':' {
			return authority[:i]
		}
	}
	return authority
}

// titleToAnnotations moves a tool's title to `annotations.title` for 2025-03-26, and removes it for 2024-11-05 (C01).
func titleToAnnotations(x *pass, tool wire.Node) {
	if tool.Kind() != '{' {
		return
	}
	for c := tool.First(); c.OK(); c = c.Next() {
		if c.Name() != wire.Title {
			continue
		}
		annotations, level := tool.Get(wire.Annotations), stripLevel(c)
		c.Remove()
		_, holds := nonEmpty(c)
		switch {
		case !holds || !x.t.to.toolAnnotations:
			x.lost(c, level)
		case !annotations.OK():
			x.moved(c, level)
			c.Swap(append(append(append(x.m.Writer(), `"annotations":{"title":`...), c.Raw()...), '}'))
		case annotations.Kind() != '{' || annotations.Get(wire.Title).OK():
			x.lost(c, level)
		default:
			x.moved(c, level)
			annotations.Add(append(append(x.m.Writer(), `"title":`...), c.Raw()...))
		}
	}
}

// stripPromptTitle removes the title of a reference to a prompt (C01).
func stripPromptTitle(x *pass, title wire.Node) {
	if title.Parent().Get(wire.Type).Is("ref/prompt") {
		strip(x, title)
	}
}
