package httpcall

import (
	"bytes"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/dragoman-proxy/dragoman/adapterrt/clean"
	"github.com/dragoman-proxy/dragoman/adapterrt/failure"
	"github.com/dragoman-proxy/dragoman/adapterrt/file"
	"github.com/dragoman-proxy/dragoman/translate/wire"
)

// How much of a response clients and logs receive.
const (
	previewRunes = 200
	messageRunes = 500
	loggedRunes  = 2000
)

// StatusRow is the code, and the beginning of the message, for an HTTP status.
type StatusRow struct {
	Code   failure.Code
	Prefix string // "" for "HTTP 408: "
}

var statusTable = map[int]StatusRow{
	400: {failure.ValidationInvalidType, "Invalid request: "},
	401: {failure.PermissionDenied, "Authentication required: "},
	403: {failure.PermissionDenied, "Permission denied: "},
	404: {failure.NotFoundResource, "Not found: "},
	408: {failure.TransportTimeout, ""},
	409: {failure.ConflictAlreadyExists, "Conflict: "},
	410: {failure.NotFoundResource, "Not found: "},
	412: {failure.ConflictVersionMismatch, ""},
	413: {failure.ValidationPayloadTooLarge, ""},
	422: {failure.ValidationInvalidType, "Validation failed: "},
	429: {failure.RateLimitExceeded, "Rate limit exceeded: "},
	500: {failure.InternalError, "Server error: "},
	502: {failure.InternalError, "Bad gateway: "},
	503: {failure.InternalError, "Service unavailable: "},
	504: {failure.InternalError, "Gateway timeout: "},
}

// MapStatus returns the row for a status that is not a success.
func MapStatus(status int, h http.Header) StatusRow {
	if status == 403 && (h.Get("X-RateLimit-Remaining") == "0" || h.Get("Retry-After") != "") {
		status = 429 // some APIs send 403 for a rate limit
	}
	row, ok := statusTable[status]
	switch {
	case ok:
	case status >= 400 && status < 500:
		row.Code = failure.ValidationInvalidType
	default:
		row.Code = failure.InternalError
	}
	if row.Prefix == "" {
		row.Prefix = "HTTP " + strconv.Itoa(status) + ": "
	}
	return row
}

// Reading says how the error texts of an API are passed on.
type Reading struct {
	Dev           bool // unchanged, with paths and addresses; only secrets are masked
	KeepAddresses bool // with private addresses and internal host names
	NoBody        bool // without the API's error body
	Now           func() time.Time
}

// sanitizer returns the sanitizer for texts of the API of op.
func (how Reading) sanitizer(op *file.Operation) clean.Sanitizer {
	return clean.Sanitizer{Off: how.Dev, KeepAddresses: how.KeepAddresses, Host: op.Adapter.Target.Base.Host}
}

// Read turns a reply into the data of a success or into a failure. If the answer is JSON, the
// data is an unchanged part of the reply's body.
func (c *Call) Read(r *Reply, how Reading) ([]byte, *failure.Failure) {
	data, f := c.interpret(r, how)
	if f == nil && c.Op.GraphQL != nil {
		data, f = c.graph(data, how)
	}
	return data, f
}

// interpret does what Read does, except for GraphQL.
func (c *Call) interpret(r *Reply, how Reading) ([]byte, *failure.Failure) {
	op, secrets := c.Op, c.Out.Secrets
	z := how.sanitizer(op)
	an := op.Answer
	if r.Status >= 300 && r.Status < 400 || r.Status < 200 {
		return nil, c.redirected(r, z)
	}
	if an != nil && slices.Contains(an.OK, r.Status) {
		c.Warn(failure.Notice{Code: "UPSTREAM_STATUS", Message: strings.TrimSpace("The API answered " + strconv.Itoa(r.Status) + " " + http.StatusText(r.Status)),
			Details: wire.Members(nil).Int("http_status", int64(r.Status)).End(), Severity: "low"})
		return []byte("null"), nil
	}
	good := r.Status < 300
	other := an != nil && an.As != file.ReadJSON
	body := r.Body
	if !other || !good {
		body = wire.Trim(bytes.TrimPrefix(body, []byte("\ufeff")))
	}
	switch {
	case len(body) == 0 || r.Status == 204 || r.Status == 205:
		if good {
			return c.nothing(r), nil
		}
		return nil, c.refused(r, nil, z, how)
	case other && good:
		return c.content(r, body, z)
	}
	if bad := wire.Check(body, wire.Limits{}); bad != nil {
		if other {
			return nil, c.refusedInText(r, body, z, how)
		}
		return nil, unreadable(r, body, bad, z, secrets)
	}
	if good && (op.Errors == nil || c.mapped(r.Status, body) < 0) {
		return body, nil
	}
	return nil, c.refused(r, body, z, how)
}

// nothing returns the data of a success without a body: the Location of a 201 or 202, which
// says where the created or accepted resource is, or null.
func (c *Call) nothing(r *Reply) []byte {
	if r.Status == 201 || r.Status == 202 {
		if location := c.location(r); location != "" {
			return wire.Members(nil).Str("location", location).End()
		}
	}
	return []byte("null")
}

// refusedInText returns the failure for an error status whose body is not JSON, for an
// operation whose answers are in another format.
func (c *Call) refusedInText(r *Reply, body []byte, z clean.Sanitizer, how Reading) *failure.Failure {
	f := c.refused(r, nil, z, how)
	kind, params := mediaType(r.ContentType)
	if !how.NoBody && !isBinary(kind) && utf8.Valid(body) && !otherCharset(params["charset"]) {
		f.Details = wire.Members(f.Details[:len(f.Details)-1]).Str("upstream_body", z.Clean(clean.FirstRunes(string(body[:min(len(body), 8*messageRunes)]), 2*messageRunes), messageRunes, c.Out.Secrets)).End()
	}
	return f
}

// refused returns the failure for an answer that is an error by its status or by an error rule
// of the adapter. body is valid JSON or nil.
func (c *Call) refused(r *Reply, body []byte, z clean.Sanitizer, how Reading) *failure.Failure {
	op, secrets := c.Op, c.Out.Secrets
	words := errorMessage(body, r.Status)
	said := z.Clean(words, messageRunes, secrets)
	row := MapStatus(r.Status, r.Header)
	errs := wire.Member(body, "errors")
	if op.GraphQL != nil {
		if better, ok := graphqlRow(errs); ok {
			row = better
		}
	}
	f := &failure.Failure{Code: row.Code, Message: row.Prefix + said}
	hint := ""
	if i := c.mapped(r.Status, body); i >= 0 {
		rule := &op.Errors[i]
		hint = rule.Hint
		if rule.Code != "" {
			f.Code = failure.Code(rule.Code)
		}
		if r.Status < 300 {
			f.Message = "Invalid request: " + said
		}
		if rule.Message != "" {
			f.Message = rule.Message
		}
	}
	if original := (clean.Sanitizer{Off: true}).Clean(words, loggedRunes, secrets); original != said {
		f.Original = original
	}
	d := wire.Members(nil).Int("http_status", int64(r.Status)).Str("upstream_error", said).Str("operation", op.Name)
	if hint != "" {
		d = d.Str("hint", hint)
	}
	if !how.NoBody {
		if told := errorBody(body, words, z, secrets); told != nil {
			d = d.Raw("upstream_body", told)
		}
	} else if errs != nil && wire.KindOf(errs) == wire.Array {
		// If there is a message as well, the caller still needs these texts to correct the
		// request.
		if more := z.Clean(joinedErrors(errs), messageRunes, secrets); more != "" && more != said {
			d = d.Str("upstream_errors", more)
		}
	}
	if f.Code == failure.RateLimitExceeded {
		now := how.Now()
		after, ok := RetryAfter(r.Header, now)
		if !ok {
			after, ok = resetAfter(op, r.Header, now)
		}
		if ok {
			f.RetryAfter = after
			d = d.Int("retry_after_seconds", int64((after+time.Second-1)/time.Second)).Str("resets_at", now.Add(after).UTC().Format(time.RFC3339))
		}
	}
	if f.Code == failure.ValidationPayloadTooLarge {
		f.FromAPI = true // the API refused the payload, not this program
	}
	f.Details = d.End()
	return f
}

// unreadable returns the failure for a body that is not JSON.
func unreadable(r *Reply, body []byte, bad *wire.Fault, z clean.Sanitizer, secrets []string) *failure.Failure {
	f := &failure.Failure{Code: failure.SerializationParse}
	kind, params := mediaType(r.ContentType)
	said := z.Clean(r.ContentType, 200, secrets)
	shown, _, _ := strings.Cut(said, ";")
	shown = clean.Text(strings.ToLower(strings.TrimSpace(shown)), 100)
	d := wire.Members(nil).Str("content_type", said)
	isJSON := kind == "application/json" || strings.HasSuffix(kind, "+json")
	switch {
	case kind == "text/html" || kind == "application/xhtml+xml":
		f.Message = "Server returned HTML instead of JSON (HTTP " + strconv.Itoa(r.Status) + ")"
		d = d.Str("body_preview", z.Clean(preview(body), previewRunes, secrets))
	case isBinary(kind) || !isJSON && !utf8.Valid(body) || otherCharset(params["charset"]):
		if shown == "" {
			shown = "application/octet-stream"
		}
		f.Message = "Unexpected content type '" + shown + "'"
	default:
		f.Message = "Failed to parse response as JSON: " + failure.BadJSON(bad.Why)
		d = d.Str("body_preview", z.Clean(preview(body), previewRunes, secrets)).Int("offset", int64(bad.At))
	}
	d = d.Int("http_status", int64(r.Status))
	if r.Status >= 300 {
		d = d.Str("mapped_code", string(MapStatus(r.Status, r.Header).Code))
	}
	f.Details = d.End()
	return f
}

// preview returns the beginning of a body. It is longer than previewRunes, because cleaning may
// shorten it.
func preview(body []byte) string {
	return clean.FirstRunes(string(body[:min(len(body), 8*previewRunes*utf8.UTFMax)]), 8*previewRunes)
}

func isBinary(kind string) bool {
	for _, p := range [...]string{"image/", "audio/", "video/", "font/", "application/octet-stream", "application/pdf", "application/zip",
		"application/gzip", "application/x-gzip", "application/x-tar", "application/x-7z", "application/x-bzip", "application/zstd",
		"application/x-protobuf", "application/protobuf", "application/msgpack", "application/x-msgpack", "application/vnd.ms-", "application/wasm"} {
		if strings.HasPrefix(kind, p) {
			return true
		}
	}
	return false
}

func otherCharset(c string) bool {
	switch strings.ToLower(c) {
	case "", "utf-8", "utf8", "us-ascii", "ascii":
		return false
	}
	return true
}

// errorMessage returns the text of an error from the usual places in a JSON body. If there is
// none, or body is nil, it returns the status.
func errorMessage(body []byte, status int) string {
	found := func(raw []byte) (string, bool) {
		if raw == nil || wire.KindOf(raw) == wire.Null {
			return "", false
		}
		return saidText(raw), true
	}
	if len(body) > 0 && body[0] == '{' {
		if s, ok := found(wire.Member(body, "message")); ok {
			return s
		}
		if e := wire.Member(body, "error"); e != nil {
			switch wire.KindOf(e) {
			case wire.String:
				return saidText(e)
			case wire.Object:
				if s, ok := found(wire.Member(e, "message")); ok {
					return s
				}
			}
		}
		if e := wire.Member(body, "errors"); e != nil && wire.KindOf(e) == wire.Array {
			if s := joinedErrors(e); s != "" {
				return s
			}
		}
		if d := wire.Member(body, "detail"); d != nil && wire.KindOf(d) == wire.Array {
			if s := saidOfEach(d); s != "" {
				return s
			}
		}
		for _, name := range [...]string{"detail", "title", "error_description"} {
			if s, ok := found(wire.Member(body, name)); ok {
				return s
			}
		}
		if s := saidElsewhere(body); s != "" {
			return s
		}
	}
	word := http.StatusText(status)
	return strings.TrimSpace(strconv.Itoa(status) + " " + word)
}

// joinedErrors joins the texts of the elements of errors, up to a limit.
func joinedErrors(raw []byte) string {
	var b strings.Builder
	wire.Each(raw, func(_, e []byte) bool {
		if b.Len() > 0 {
			b.WriteString("; ")
		}
		if m := wire.Member(e, "message"); m != nil && wire.KindOf(m) != wire.Null {
			b.WriteString(saidText(m))
		} else {
			b.WriteString(saidText(e))
		}
		return b.Len() < 8*messageRunes
	})
	return b.String()
}

// saidText returns the text of a string, and compact JSON for any other value.
func saidText(raw []byte) string {
	raw = raw[:len(raw):len(raw)]
	if wire.KindOf(raw) == wire.String {
		return string(wire.Unquoted(raw))
	}
	return string(wire.AppendCompact(nil, raw))
}

// RetryAfter returns how long an API asks to wait, from Retry-After
// (https://www.rfc-editor.org/rfc/rfc9110#field.retry-after), otherwise from the headers of a rate
// limit of which nothing remains. It returns false if the API does not ask.
func RetryAfter(h http.Header, now time.Time) (time.Duration, bool) {
	const longest = 366 * 24 * time.Hour
	if v := strings.TrimSpace(h.Get("Retry-After")); v != "" {
		if s, err := strconv.ParseInt(v, 10, 64); err == nil && s >= 0 {
			return time.Duration(min(s, int64(longest/time.Second))) * time.Second, true
		}
		if t, err := http.ParseTime(v); err == nil {
			return min(max(t.Sub(now), 0), longest), true
		}
	}
	wait, asks := time.Duration(0), false
	for _, b := range Budgets(h, now) {
		if b.Remaining == 0 && b.Reset.After(time.Time{}) {
			wait, asks = max(wait, b.Reset.Sub(now), 0), true
		}
	}
	return wait, asks
}

// AsksAgain returns after how long a request should be sent once more, because the API refused it
// only for the moment. It returns false if the API does not say so, or if the request may have had
// an effect and is not repeatable.
func AsksAgain(r *Reply, repeatable bool, now time.Time) (time.Duration, bool) {
	if r.Status < 400 || MapStatus(r.Status, r.Header).Code != failure.RateLimitExceeded && (r.Status != 503 || !repeatable || r.Header.Get("Retry-After") == "") {
		return 0, false
	}
	wait, asks := RetryAfter(r.Header, now)
	return wait, asks && (wait > 0 || r.Header.Get("Retry-After") != "") // a reset in the past says nothing
}

// resetAfter returns how long to wait according to the headers that the rate limits of op name,
// if one of them says that no calls remain.
func resetAfter(op *file.Operation, h http.Header, now time.Time) (wait time.Duration, ok bool) {
	for _, l := range [...]*file.Limits{op.Adapter.Limits, op.Limits} {
		if l == nil {
			continue
		}
		for i := range l.Rules {
			left, told := HeaderNumber(h, l.Rules[i].Remaining)
			at, known := HeaderNumber(h, l.Rules[i].Reset)
			if told && known && left == 0 && l.Rules[i].Covers(op) {
				wait, ok = max(wait, ResetTime(at, now).Sub(now), 0), true
			}
		}
	}
	return wait, ok
}

// HeaderNumber returns the number in a header. It returns false if the header is missing or is
// not an integer of at least 0.
func HeaderNumber(h http.Header, name string) (int64, bool) {
	if name == "" {
		return 0, false
	}
	n, err := strconv.ParseInt(strings.TrimSpace(h.Get(name)), 10, 64)
	return n, err == nil && n >= 0
}

// ResetTime returns the time that a reset header names with the number n: Unix time in seconds
// or milliseconds, or the number of seconds from now. It returns at most 366 days from now.
func ResetTime(n int64, now time.Time) time.Time {
	const longest = 366 * 24 * time.Hour
	switch {
	case n < 1<<28:
		return now.Add(min(time.Duration(n)*time.Second, longest))
	case n < 1<<37: // as seconds the year 6325, as milliseconds a day in 1974
		return now.Add(min(time.Unix(n, 0).Sub(now), longest))
	}
	return now.Add(min(time.UnixMilli(min(n, 1<<47)).Sub(now), longest))
}
