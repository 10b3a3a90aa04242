package httpcall

import (
	"cmp"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/dragoman-proxy/dragoman/adapterrt/failure"
	"github.com/dragoman-proxy/dragoman/adapterrt/file"
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
	row.Prefix = cmp.Or(row.Prefix, "HTTP "+strconv.Itoa(status)+": ")
	return row
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
