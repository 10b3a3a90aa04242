package mcpheader

import (
	"math"
	"strings"

	"github.com/tidwall/gjson"

	"github.com/dragoman-proxy/dragoman/proxy/mcp"
	"github.com/dragoman-proxy/dragoman/proxy/toolindex"
	"github.com/dragoman-proxy/dragoman/proxy/upstream"
	"github.com/dragoman-proxy/dragoman/translate/wire"
)

// ParamPrefix is what the names of headers begin with that repeat arguments of a tool. See
// https://modelcontextprotocol.io/specification/2026-07-28/basic/transports#custom-headers-from-tool-parameters.
const ParamPrefix = "Mcp-Param-"

// CheckParams holds the headers that repeat arguments of a tool against the body. A
// header that has no argument is as wrong as one that says something else. See
// https://modelcontextprotocol.io/specification/2026-07-28/basic/transports#custom-headers-from-tool-parameters.
func CheckParams(list []toolindex.Argument, arguments []byte, header []upstream.Header) error {
	for _, a := range list {
		said, there := paramIn(header, ParamPrefix, a.Header)
		if err := agrees(a, a.In(arguments), said, there); err != nil {
			return err
		}
	}
	return nil
}

// agrees holds an argument against its header.
func agrees(a toolindex.Argument, at gjson.Result, said string, there bool) error {
	if integer := a.Kind == "integer" && at.Type == gjson.Number; integer && at.Num == math.Trunc(at.Num) && math.Abs(at.Num) > toolindex.MaxSafe {
		if _, ok := Decode(said); ok {
			return tooLarge(a)
		}
	} else if says(a, at, said, there) {
		return nil
	}
	return Mismatch(ParamPrefix+a.Header, "arguments."+strings.Join(a.Path, "."))
}

// says reports whether the header, if it is there, says what the argument is.
func says(a toolindex.Argument, at gjson.Result, said string, there bool) bool {
	text, ok := Decode(said)
	switch {
	case !ok:
		return false
	case !at.Exists(), at.Type == gjson.Null, at.Type == gjson.JSON: // the last of which the tool will not take, and no header can say
		return !there
	case a.Kind == "integer" && at.Type == gjson.Number:
		return there && wire.Valid([]byte(text)) && wire.Equal([]byte(text), []byte(at.Raw))
	case at.String() == "" && !there: // an empty value is as good as none to many on the way
		return true
	}
	return there && text == at.String()
}

// tooLarge says that an argument has no header that everybody would read alike.
func tooLarge(a toolindex.Argument) *mcp.Failure {
	return mcp.Saying(mcp.CodeInvalidParams, "Argument "+strings.Join(a.Path, ".")+" is too large for a header")
}

// paramIn finds a header by its name, which is prefix and rest.
func paramIn(header []upstream.Header, prefix, rest string) (value string, there bool) {
	for _, h := range header {
		if len(h.Name) == len(prefix)+len(rest) && strings.EqualFold(h.Name[:len(prefix)], prefix) && strings.EqualFold(h.Name[len(prefix):], rest) {
			return h.Value, true
		}
	}
	return "", false
}

// Params are the headers that repeat the arguments of a call.
func Params(list []toolindex.Argument, arguments []byte) ([]upstream.Header, error) {
	var h []upstream.Header
	for _, a := range list {
		text, ok, err := a.Text(arguments)
		if err != nil {
			return nil, tooLarge(a)
		}
		if ok {
			h = append(h, upstream.Header{Name: ParamPrefix + a.Header, Value: Encode(text)})
		}
	}
	return h, nil
}
