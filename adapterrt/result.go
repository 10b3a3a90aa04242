package adapterrt

import (
	"encoding/base64"
	"strconv"
	"time"
	"unicode/utf8"

	"github.com/dragoman-proxy/dragoman/adapterrt/failure"
	"github.com/dragoman-proxy/dragoman/adapterrt/file"
	"github.com/dragoman-proxy/dragoman/adapterrt/httpcall"
	"github.com/dragoman-proxy/dragoman/translate/wire"
)

// Result is the outcome of one request: data or a failure, never both.
type Result struct {
	Data     []byte // JSON, if there is no Failure; it may be shared, so callers must not change it
	Failure  *failure.Failure
	Warnings []failure.Notice // with Data only
	Meta     []byte           // members of _meta as a JSON object, nil for none; with Data only
	Call     Record           // what happened, for logs and metrics

	// Media are the images and files of the answer. A tool result has them in addition to Data.
	Media []httpcall.Media

	// Cancelled says that the caller left before there was a result, so that none is sent.
	Cancelled bool

	Parts []Record // for a batch: what happened to each request

	whole      []byte // the whole answer to a batch
	plain      []byte // a text that stands for Data, which is nil then; nil for none
	text       []byte // what a tool result says in place of Data
	structured bool   // a tool result also has structuredContent
	alone      bool   // of a tool for one operation: each failure is an error, as MCP wants it
}

// Record holds what logs and metrics may contain about a call. It holds no value of a
// parameter and no credential.
type Record struct {
	RequestID, Adapter, Version, Operation string
	Category                               file.Category
	Status                                 int           // of the API's response, 0 if there was none
	Bytes                                  int           // of the response's body
	Gates                                  time.Duration // spent on the requests of gates
	Upstream                               time.Duration // spent on the request to the API
	Waited                                 time.Duration // spent waiting for a rate limit
	Duration                               time.Duration // of the call, without the time spent waiting for the user
	Outcome                                failure.Code  // "" for success
	Danger                                 string        // destructive, dangerous or forbidden, for the audit log; "" for less
	Gate                                   string        // passed, refused or open; "" if no gate was checked
	Cache                                  string        // hit, miss or revalidated; "" if the operation has no cache
	Breaker                                string        // the breaker's state after the call: closed, open or half_open; "" for none
	Repeated                               bool          // the request had a member twice; the last one counted
	Cause                                  error         // the cause of a failure; not to be sent to clients
	Original                               string        // the API's own error text, for the debug log only
}

// around returns what stands before and behind the data of the discriminated result, or all of a result without data.
func (r *Result) around() (before, behind []byte) {
	if r.whole != nil {
		return r.whole, nil
	}
	if f := r.Failure; f != nil {
		dst := wire.AppendQuoted([]byte(`{"success":false,"error":{"code":`), string(f.Code))
		dst = wire.AppendQuoted(append(dst, `,"message":`...), f.Message)
		if f.Details != nil {
			dst = append(append(dst, `,"details":`...), f.Details...)
		}
		return append(append(append(dst, '}'), f.Beside...), '}'), nil
	}
	for i, w := range r.Warnings {
		if i == 0 {
			behind = append(behind, `,"warnings":[`...)
		} else {
			behind = append(behind, ',')
		}
		o := wire.Members(nil).Str("code", w.Code).Str("message", w.Message)
		if w.Details != nil {
			o = o.Raw("details", w.Details)
		}
		if w.Severity != "" {
			o = o.Str("severity", w.Severity)
		}
		behind = append(behind, o.End()...)
	}
	if len(r.Warnings) > 0 {
		behind = append(behind, ']')
	}
	if r.Meta != nil {
		behind = append(append(behind, `,"_meta":`...), r.Meta...)
	}
	return []byte(`{"success":true,"data":`), append(behind, '}')
}

// hasData reports whether data stands between what around returns.
func (r *Result) hasData() bool { return r.whole == nil && r.Failure == nil }

// data returns the data, unless it is a text in plain.
func (r *Result) data() []byte {
	if len(r.Data) == 0 {
		return []byte("null")
	}
	return r.Data
}

// AppendJSON appends the discriminated result, {"success":true,"data":…} or
// {"success":false,"error":…}, to dst.
func (r *Result) AppendJSON(dst []byte) []byte {
	before, behind := r.around()
	dst = append(dst, before...)
	switch {
	case !r.hasData():
	case r.plain != nil:
		dst = wire.AppendQuoted(dst, r.plain)
	default:
		dst = append(dst, r.data()...)
	}
	return append(dst, behind...)
}

// size returns the length of what AppendJSON appends.
func (r *Result) size() int {
	before, behind := r.around()
	n := len(before) + len(behind)
	switch {
	case !r.hasData():
	case r.plain != nil:
		n += wire.QuotedLen(r.plain)
	default:
		n += len(r.data())
	}
	return n
}

// JSON returns the discriminated result in a new slice.
func (r *Result) JSON() []byte { return r.AppendJSON(make([]byte, 0, r.size())) }

// HTTPStatus returns the status with which the plain HTTP endpoints answer.
func (r *Result) HTTPStatus() int {
	if r.Failure == nil {
		return 200
	}
	return r.Failure.Status()
}

// RetryAfter returns the value of the Retry-After header in seconds, or "" if the
// response has no such header.
func (r *Result) RetryAfter() string {
	if r.Failure == nil || r.HTTPStatus() != 429 && r.Failure.Code != failure.TransportCircuitOpen && !r.Failure.Busy {
		return ""
	}
	return strconv.FormatInt(int64((max(r.Failure.RetryAfter, time.Second)+time.Second-1)/time.Second), 10)
}

// IsStructured reports whether the tool result also has the data as structured content.
func (r *Result) IsStructured() bool { return r.structured }

// IsError returns the isError of the tool result. For a tool that calls several operations, whose
// results MCP-AQL describes, it is false for a failure from which an agent can recover.
func (r *Result) IsError() bool {
	return r.Failure != nil && (r.alone || !r.Failure.Recoverable())
}

// ToolSize returns the length of what AppendToolResult appends, or a little more.
func (r *Result) ToolSize() int {
	const frame = 128
	if r.text != nil && r.Failure == nil {
		return frame + wire.QuotedLen(r.text)
	}
	before, behind := r.around()
	n := frame + wire.CompactQuotedLen(before) + wire.CompactQuotedLen(behind)
	switch {
	case !r.hasData():
	case r.plain != nil:
		n += quotedTwiceLen(r.plain)
	default:
		n += wire.CompactQuotedLen(r.data())
	}
	for i := range r.Media {
		m := &r.Media[i]
		n += frame + wire.QuotedLen(m.Type) + wire.QuotedLen(m.Name) + base64.StdEncoding.EncodedLen(len(m.Content))
	}
	if r.structured {
		n += r.size()
	}
	return n
}

// AppendToolResult appends r to dst as the result of tools/call, including isError.
func (rt *Runtime) AppendToolResult(dst []byte, r *Result) []byte {
	if r.text != nil && r.Failure == nil {
		dst = wire.AppendQuoted(append(dst, `{"content":[{"type":"text","text":`...), r.text)
		return append(dst, `}],"isError":false}`...)
	}
	before, behind := r.around()
	dst = append(dst, `{"content":[{"type":"text","text":"`...)
	dst = wire.AppendCompactQuoted(dst, before) // compact, because white space costs a model tokens
	switch {
	case !r.hasData():
	case r.plain != nil:
		dst = appendQuotedTwice(dst, r.plain)
	default:
		dst = wire.AppendCompactQuoted(dst, r.data())
	}
	dst = append(wire.AppendCompactQuoted(dst, behind), `"}`...)
	for i := range r.Media {
		dst = appendMedia(append(dst, ','), &r.Media[i])
	}
	dst = append(dst, ']')
	if r.structured {
		dst = wire.AppendCompact(append(dst, `,"structuredContent":`...), before)
		switch {
		case !r.hasData():
		case r.plain != nil:
			dst = wire.AppendQuoted(dst, r.plain)
		default:
			dst = wire.AppendCompact(dst, r.data())
		}
		dst = wire.AppendCompact(dst, behind)
	}
	dst = append(dst, `,"isError":`...)
	return append(strconv.AppendBool(dst, r.IsError()), '}')
}

// appendQuotedTwice appends text as a JSON string that is escaped for the inside of another one, without a copy of all of it
// in between.
func appendQuotedTwice(dst, text []byte) []byte {
	const piece = 8 << 10
	var room [6*piece + 2]byte
	dst = append(dst, `\"`...)
	for len(text) > 0 {
		n := min(piece, len(text))
		for i := n; i > 0 && i > n-utf8.UTFMax && n < len(text); i-- { // not within a character
			if utf8.RuneStart(text[i]) {
				n = i
				break
			}
		}
		once := wire.AppendQuoted(room[:0], text[:n])
		dst = wire.AppendQuotedInner(dst, wire.View(once[1:len(once)-1]))
		text = text[n:]
	}
	return append(dst, `\"`...)
}

// quotedTwiceLen returns the length of what appendQuotedTwice appends.
func quotedTwiceLen(text []byte) int {
	n := wire.QuotedLen(text) + 2
	for _, c := range text {
		switch {
		case c == '"' || c == '\\':
			n += 2
		case c < 0x20 || c == 0x7f:
			n++
		}
	}
	return n
}

// appendMedia appends m to dst as a content block.
func appendMedia(dst []byte, m *httpcall.Media) []byte {
	kind := m.Block()
	dst = wire.AppendQuoted(append(dst, `{"type":`...), kind)
	if kind != "resource" {
		dst = base64.StdEncoding.AppendEncode(append(dst, `,"data":"`...), m.Content)
		dst = wire.AppendQuoted(append(dst, `","mimeType":`...), m.Type)
		return append(dst, '}')
	}
	dst = wire.AppendQuoted(append(dst, `,"resource":{"uri":`...), m.Name)
	dst = wire.AppendQuoted(append(dst, `,"mimeType":`...), m.Type)
	dst = base64.StdEncoding.AppendEncode(append(dst, `,"blob":"`...), m.Content)
	return append(dst, `"}}`...)
}
