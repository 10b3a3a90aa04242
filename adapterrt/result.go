package adapterrt

import (
	"encoding/base64"
	"strconv"
	"time"

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
	text       []byte // what a tool result says in place of Data
	structured bool   // a tool result also has structuredContent
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

// AppendJSON appends the discriminated result, {"success":true,"data":…} or
// {"success":false,"error":…}, to dst.
func (r *Result) AppendJSON(dst []byte) []byte {
	if r.whole != nil {
		return append(dst, r.whole...)
	}
	if f := r.Failure; f != nil {
		dst = append(dst, `{"success":false,"error":`...)
		dst = wire.AppendQuoted(append(dst, `{"code":`...), string(f.Code))
		dst = wire.AppendQuoted(append(dst, `,"message":`...), f.Message)
		if f.Details != nil {
			dst = append(append(dst, `,"details":`...), f.Details...)
		}
		return append(append(append(dst, '}'), f.Beside...), '}')
	}
	dst = append(dst, `{"success":true,"data":`...)
	if len(r.Data) == 0 {
		dst = append(dst, "null"...)
	}
	dst = append(dst, r.Data...)
	for i, w := range r.Warnings {
		if i == 0 {
			dst = append(dst, `,"warnings":[`...)
		} else {
			dst = append(dst, ',')
		}
		o := wire.Members(nil).Str("code", w.Code).Str("message", w.Message)
		if w.Details != nil {
			o = o.Raw("details", w.Details)
		}
		if w.Severity != "" {
			o = o.Str("severity", w.Severity)
		}
		dst = append(dst, o.End()...)
	}
	if len(r.Warnings) > 0 {
		dst = append(dst, ']')
	}
	if r.Meta != nil {
		dst = append(append(dst, `,"_meta":`...), r.Meta...)
	}
	return append(dst, '}')
}

// JSON returns the discriminated result in a new slice.
func (r *Result) JSON() []byte {
	n := len(r.Data) + len(r.Meta) + len(r.whole) + 64
	if r.Failure != nil {
		n += len(r.Failure.Message) + len(r.Failure.Details)
	}
	return r.AppendJSON(make([]byte, 0, n))
}

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
	if r.Failure == nil || r.HTTPStatus() != 429 && r.Failure.Code != failure.TransportCircuitOpen {
		return ""
	}
	return strconv.FormatInt(int64((max(r.Failure.RetryAfter, time.Second)+time.Second-1)/time.Second), 10)
}

// IsError returns the isError of the tool result. It is false for a failure from which
// an agent can recover.
func (r *Result) IsError() bool { return r.Failure != nil && !r.Failure.Recoverable() }

// AppendToolResult appends r to dst as the result of tools/call, including isError.
func (rt *Runtime) AppendToolResult(dst []byte, r *Result) []byte {
	if r.text != nil && r.Failure == nil {
		return append(dst, wire.Members(nil).Raw("content", append(append([]byte(`[`), wire.Members(nil).Str("type", "text").Str("text", string(r.text)).End()...), ']')).Bool("isError", false).End()...)
	}
	result := r.JSON()
	dst = append(dst, `{"content":[{"type":"text","text":"`...)
	dst = wire.AppendCompactQuoted(dst, result) // compact, because white space costs a model tokens
	dst = append(dst, `"}`...)
	for i := range r.Media {
		dst = appendMedia(append(dst, ','), &r.Media[i])
	}
	dst = append(dst, ']')
	if r.structured {
		dst = wire.AppendCompact(append(dst, `,"structuredContent":`...), result)
	}
	dst = append(dst, `,"isError":`...)
	return append(strconv.AppendBool(dst, r.IsError()), '}')
}

// appendMedia appends m to dst as a content block.
func appendMedia(dst []byte, m *httpcall.Media) []byte {
	content := base64.StdEncoding.EncodeToString(m.Content)
	kind := m.Block()
	if kind != "resource" {
		return append(dst, wire.Members(nil).Str("type", kind).Str("data", content).Str("mimeType", m.Type).End()...)
	}
	inner := wire.Members(nil).Str("uri", m.Name).Str("mimeType", m.Type).Str("blob", content).End()
	return append(dst, wire.Members(nil).Str("type", kind).Raw("resource", inner).End()...)
}
