package telemetry

import (
	"bytes"
	"strings"

	"github.com/tidwall/gjson"
	"github.com/tidwall/sjson"

	"github.com/dragoman-proxy/dragoman/proxy/protocol/mcp"
	"github.com/dragoman-proxy/dragoman/translate/wire"
)

// marked returns copies of a message and its headers that name the span at.
func marked(message []byte, header []mcp.Header, at *spanContext) ([]byte, []mcp.Header) {
	var text [64]byte
	parent := string(at.appendTo(text[:0]))
	out, err := withContext(message, parent, at.state)
	if err != nil {
		return message, header
	}
	set := make([]mcp.Header, 0, len(header)+2)
	for _, h := range header {
		if !strings.EqualFold(h.Name, traceparent) && !strings.EqualFold(h.Name, tracestate) {
			set = append(set, h)
		}
	}
	set = append(set, mcp.Header{Name: traceparent, Value: parent})
	if at.state != "" {
		set = append(set, mcp.Header{Name: tracestate, Value: at.state})
	}
	return out, set
}

// withContext returns a copy of a message with these members in _meta.
func withContext(message []byte, parent, state string) (out []byte, err error) {
	if bytes.Contains(message, []byte(traceparent)) || bytes.Contains(message, []byte(tracestate)) { // the client's
		if out, err = sjson.SetBytes(message, "params._meta."+traceparent, parent); err != nil || state == "" {
			return out, err
		}
		return sjson.SetBytes(out, "params._meta."+tracestate, state)
	}
	params := gjson.Get(wire.View(message), "params")
	switch meta := params.Get("_meta"); {
	case meta.IsObject():
		return inserted(message, meta.Index, "", parent, state, ""), nil
	case params.IsObject() && !meta.Exists():
		return inserted(message, params.Index, `"_meta":{`, parent, state, "}"), nil
	case !params.Exists():
		return sjson.SetRawBytes(message, "params", appendMembers([]byte(`{"_meta":{`), parent, state, `}}`))
	}
	return message, nil // params of another kind, which the server will refuse
}

// appendMembers appends the members of _meta that name a context, and then end.
func appendMembers(dst []byte, parent, state, end string) []byte {
	dst = append(append(append(dst, `"traceparent":"`...), parent...), '"')
	if state != "" {
		dst = wire.AppendQuoted(append(dst, `,"tracestate":`...), state)
	}
	return append(dst, end...)
}

// inserted returns a copy of message with a context's members, between begin and end, at the beginning of the object that
// begins at index at.
func inserted(message []byte, at int, begin, parent, state, end string) []byte {
	at++
	out := make([]byte, 0, len(message)+2*len(state)+128)
	out = appendMembers(append(append(out, message[:at]...), begin...), parent, state, end)
	if rest := bytes.TrimLeft(message[at:], " \t\r\n"); rest[0] != '}' {
		out = append(out, ',')
	}
	return append(out, message[at:]...)
}

// traceparent and tracestate are the names of a message's context, in _meta and among the headers. See
// https://modelcontextprotocol.io/specification/2026-07-28/basic#meta and https://www.w3.org/TR/trace-context/.
const traceparent, tracestate = "traceparent", "tracestate"
