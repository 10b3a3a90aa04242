package openapi

import (
	"cmp"
	"strings"

	"github.com/dragoman-proxy/dragoman/adapterrt/pattern"
	"github.com/dragoman-proxy/dragoman/translate/wire"
)

// advice is what a document says to programs that make tools of it. Other ones read these members, too: x-mcp is true or false,
// or an object; x-speakeasy-mcp is an object.
type advice struct {
	name, description string
	disabled          bool
	scopes            []string // by which tools are selected; they have nothing to do with OAuth
}

var adviceKeys = []string{"x-mcp", "x-speakeasy-mcp"}

// toolWords matches what names of tools do not have.
var toolWords = pattern.Later(`[^A-Za-z0-9_-]+`)

// advice reads the advice for an operation. What it says itself counts, then what its path says, then what the document says;
// names and descriptions are only its own.
func (d *Document) advice(item, op *node) (a advice) {
	said := false
	for _, owner := range [...]*node{op, item, d.root} {
		for _, key := range adviceKeys {
			n, _ := d.follow(owner.get(key))
			disabled, says := isDisabled(n)
			if says && !said {
				a.disabled, said = disabled, true
			}
			if !n.is(wire.Object) {
				continue
			}
			if a.scopes == nil {
				a.scopes = n.strs("scopes")
			}
			if owner != op {
				continue
			}
			a.name = cmp.Or(a.name, n.str("name"))
			a.description = cmp.Or(a.description, n.str("description"))
		}
	}
	return a
}

// isDisabled reports whether advice leaves an operation out, and whether it says anything about that. In a document's root,
// x-mcp may describe an MCP server, which has none of these members.
func isDisabled(n *node) (disabled, says bool) {
	if n.is(wire.Object) {
		for _, key := range [...]string{"disabled", "skip", "enabled"} {
			if v, ok := n.get(key).truth(); ok {
				return v == (key != "enabled"), true
			}
		}
		return false, false
	}
	v, ok := n.truth()
	return !v, ok
}

// truth returns a truth value, also one that is written as a text.
func (n *node) truth() (value, ok bool) {
	if n.is(wire.Boolean) || n.is(wire.String) {
		switch strings.ToLower(n.text) {
		case "true":
			return true, true
		case "false":
			return false, true
		}
	}
	return false, false
}
