package adapterrt

import (
	"github.com/dragoman-proxy/dragoman/translate/wire"
)

// appendUnquoted appends the text of the valid JSON string raw to dst. A lone
// surrogate becomes U+FFFD.
func appendUnquoted(dst, raw []byte) []byte {
	return wire.AppendUnescaped(dst, raw[1:len(raw)-1])
}
