package results

import (
	"crypto/sha256"
	"fmt"

	"github.com/tidwall/gjson"

	"github.com/dragoman-proxy/dragoman/translate/wire"
)

// Digest identifies what params ask of a method. It leaves out _meta and the members with which a
// client answers questions.
func Digest(method, params string) [sha256.Size]byte {
	h := sha256.New()
	h.Write([]byte(method))
	if all := gjson.Parse(params); all.IsObject() {
		all.ForEach(func(key, v gjson.Result) bool {
			switch name := key.String(); name {
			case "_meta", "inputResponses", "requestState":
			default:
				fmt.Fprintf(h, "\x00%q", name)
				h.Write(wire.AppendCompactQuoted(nil, []byte(v.Raw)))
			}
			return true
		})
	}
	return [sha256.Size]byte(h.Sum(nil))
}
