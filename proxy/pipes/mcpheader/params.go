package mcpheader

import (
	"math"
	"strings"

	"github.com/tidwall/gjson"

	"github.com/dragoman-proxy/dragoman/proxy/protocol/mcp"
	"github.com/dragoman-proxy/dragoman/proxy/protocol/toolindex"
	"github.com/dragoman-proxy/dragoman/translate/wire"
)

// Prefix is the prefix of the headers that describe a message.
const Prefix = "Mcp-"

// ParamPrefix begins the names of the headers that repeat arguments of a tool. See
// https://modelcontextprotocol.io/specification/2026-07-28/basic/transports#custom-headers-from-tool-parameters.
const ParamPrefix = "Mcp-Param-"

// CheckParams compares the headers that repeat arguments of a tool with the body. A header
// without an argument is as wrong as one with another value. See
// https://modelcontextprotocol.io/specification/2026-07-28/basic/transports#custom-headers-from-tool-parameters.
func CheckParams(list []toolindex.Argument, arguments []byte, header []mcp.Header) error {
	for _, a := range list {
		if a.Twice(arguments) {
			return mcp.Twice("arguments." + strings.Join(a.Path, "."))
		}
		said, there := paramIn(header, ParamPrefix, a.Header)
		if err := agrees(a, a.In(arguments), said, there); err != nil {
			return err
		}
	}
	return nil
}

// agrees returns an error if an argument and its header do not match.
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

// says reports whether the header, if there is one, has the value of the argument.
func says(a toolindex.Argument, at gjson.Result, said string, there bool) bool {
	text, ok := Decode(said)
	switch {
	case !ok:
		return false
	case !at.Exists(), at.Type == gjson.Null, at.Type == gjson.JSON: // a tool takes no object or array here, and a header cannot hold one
		return !there
	case a.Kind == "integer" && at.Type == gjson.Number:
		return there && wire.Valid([]byte(text)) && wire.Equal([]byte(text), []byte(at.Raw))
	case at.String() == "" && !there: // many intermediaries treat an empty value as an absent header
		return true
	}
	return there && text == at.String()
}

// tooLarge returns the failure for an argument whose header not every reader would parse
// to the same value.
func tooLarge(a toolindex.Argument) *mcp.Failure {
	return mcp.Saying(mcp.CodeInvalidParams, "Argument "+strings.Join(a.Path, ".")+" is too large for a header")
}

// paramIn finds a header by its name, which is prefix and rest.
func paramIn(header []mcp.Header, prefix, rest string) (value string, there bool) {
	for _, h := range header {
		if len(h.Name) == len(prefix)+len(rest) && strings.EqualFold(h.Name[:len(prefix)], prefix) && strings.EqualFold(h.Name[len(prefix):], rest) {
			return h.Value, true
		}
	}
	return "", false
}

// Params returns the headers that repeat the arguments of a call.
func Params(list []toolindex.Argument, arguments []byte) ([]mcp.Header, error) {
	var h []mcp.Header
	for _, a := range list {
		if a.Twice(arguments) {
			return nil, mcp.Twice("arguments." + strings.Join(a.Path, "."))
		}
		text, ok, err := a.Text(arguments)
		if err != nil {
			return nil, tooLarge(a)
		}
		if ok {
			h = append(h, mcp.Header{Name: ParamPrefix + a.Header, Value: Encode(text)})
		}
	}
	return h, nil
}
