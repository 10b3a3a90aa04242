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
	Data     []byte // JSON, when there is no Failure; it may be shared and must not be changed
	Failure  *failure.Failure
	Warnings []failure.Notice // with Data only
	Meta     []byte           // members of _meta as a JSON object, nil for none; with Data only
	Call     Record           // what happened, for logs and metrics

	// Media are the images and files of the answer, which a tool's result has beside Data.
	Media []httpcall.Media

	// Cancelled says that the caller left before there was a result: there is
	// nobody to send one to.
	Cancelled bool

	Parts []Record // of a batch: what happened to each request

	whole []byte // the whole answer to a batch
}

// Record is what a log or a metric may know of a call. No value of a parameter and
// no credential is in it.
type Record struct {
	RequestID, Adapter, Version, Operation string
	Category                               file.Category
	Status                                 int           // of the API's response, 0 when there was none
	Bytes                                  int           // of its body
	Gates                                  time.Duration // asking the API what it supports
	Upstream                               time.Duration // the request itself; the rest of Duration is ours
	Duration                               time.Duration // but for the time in which the user was asked
	Outcome                                failure.Code  // "" for success
	Danger                                 string        // destructive, dangerous or forbidden: attempts are for the audit
	Gate                                   string        // passed, refused or open, when one was asked
	Cache                                  string        // hit, miss or revalidated, when there is one
	Repeated                               bool          // the request had a member twice, of which the last counted
	Cause                                  error         // why, in words that are not for clients
	Original                               string        // what the API said, for the debug log alone
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

// JSON is the discriminated result in a slice of its own.
func (r *Result) JSON() []byte {
	n := len(r.Data) + len(r.Meta) + len(r.whole) + 64
	if r.Failure != nil {
		n += len(r.Failure.Message) + len(r.Failure.Details)
	}
	return r.AppendJSON(make([]byte, 0, n))
}

// HTTPStatus is the status of the plain HTTP endpoints for the result.
func (r *Result) HTTPStatus() int {
	if r.Failure == nil {
		return 200
	}
	return r.Failure.Status()
}

// RetryAfter is the Retry-After header's value, "" when there is nothing to say.
func (r *Result) RetryAfter() string {
	if r.Failure == nil || r.HTTPStatus() != 429 {
		return ""
	}
	return strconv.FormatInt(int64((max(r.Failure.RetryAfter, time.Second)+time.Second-1)/time.Second), 10)
}

// IsError is the isError of the tool result: a failure that an agent can mend is none.
func (r *Result) IsError() bool { return r.Failure != nil && !r.Failure.Recoverable() }

// AppendToolResult appends r as the result of tools/call, isError and all.
func (rt *Runtime) AppendToolResult(dst []byte, r *Result) []byte {
	result := r.JSON()
	dst = append(dst, `{"content":[{"type":"text","text":"`...)
	dst = wire.AppendCompactQuoted(dst, result) // an API's blanks are tokens to a model
	dst = append(dst, `"}`...)
	for i := range r.Media {
		dst = appendMedia(append(dst, ','), &r.Media[i])
	}
	dst = append(dst, ']')
	dst = append(dst, `,"isError":`...)
	return append(strconv.AppendBool(dst, r.IsError()), '}')
}

// appendMedia appends m as a content block.
func appendMedia(dst []byte, m *httpcall.Media) []byte {
	content := base64.StdEncoding.EncodeToString(m.Content)
	kind := m.Block()
	if kind != "resource" {
		return append(dst, wire.Members(nil).Str("type", kind).Str("data", content).Str("mimeType", m.Type).End()...)
	}
	inner := wire.Members(nil).Str("uri", m.Name).Str("mimeType", m.Type).Str("blob", content).End()
	return append(dst, wire.Members(nil).Str("type", kind).Raw("resource", inner).End()...)
}
