package stateless

import (
	"bytes"

	"github.com/tidwall/gjson"

	"github.com/dragoman-proxy/dragoman/proxy/protocol/mcp"
	"github.com/dragoman-proxy/dragoman/translate"
	"github.com/dragoman-proxy/dragoman/translate/wire"
)

// IsModern reports whether a request is of a modern revision, which every modern request names in
// _meta.
func IsModern(m *wire.Message) bool {
	params := m.Params()
	if !bytes.Contains(params, []byte("protocolVersion")) {
		return false // most requests need no further check
	}
	modern := false
	gjson.Get(wire.View(params), "_meta").ForEach(func(key, value gjson.Result) bool {
		if key.String() == mcp.MetaVersion && value.Type == gjson.String {
			modern = translate.WithHandshake(value.String()) == nil
		}
		return !modern
	})
	return modern
}

// NamesModern reports whether the revision in a header is a modern one. A revision that dragoman
// does not know counts as modern.
func NamesModern(version string) bool {
	r := translate.Lookup(version)
	return version != "" && (r == nil || r.Modern)
}
