package httpcall

import (
	"bytes"
	"cmp"
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

// Read turns a reply into the data of a success or into a failure. If the answer is JSON in UTF-8, the
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
	if c.Out.seesOther(r.Status, r.Header.Get("Location")) {
		return c.nothing(r), nil
	}
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
		if an.As != file.ReadAuto {
			return c.content(r, body, z, how)
		}
		body = bytes.TrimPrefix(body, []byte("\ufeff"))
		if len(wire.Trim(body)) == 0 {
			return c.nothing(r), nil
		}
		bad := wire.Check(body, wire.Limits{})
		if bad != nil {
			body, bad = recoded(r, body, bad)
		}
		if bad != nil && c.isNot(r, body) {
			return nil, unreadable(r, body, bad, z, secrets)
		}
		if bad != nil {
			return c.content(r, r.Body, z, how)
		}
	}
	bad := wire.Check(body, wire.Limits{})
	if bad != nil {
		body, bad = recoded(r, body, bad)
	}
	switch {
	case bad != nil && other:
		return nil, c.refusedInText(r, body, z, how)
	case bad != nil:
		return nil, unreadable(r, body, bad, z, secrets)
	}
	if good && (op.Errors == nil || c.mapped(r.Status, body) < 0) {
		return body, nil
	}
	return nil, c.refused(r, wire.Trim(body), z, how)
}

// recoded returns the JSON of a reply in UTF-8, if its Content-Type names another charset in which it is valid. Otherwise it
// returns body and bad, which is what is wrong with it.
func recoded(r *Reply, body []byte, bad *wire.Fault) ([]byte, *wire.Fault) {
	kind, params := mediaType(r.ContentType)
	d := &answerReader{kind: kind, set: strings.ToLower(params["charset"]), body: r.Body}
	if !isJSON(kind) || !otherCharset(d.set) {
		return body, bad
	}
	if text, problem := d.text(false); problem == "" {
		if out := wire.Trim(wire.Bytes(text)); wire.Check(out, wire.Limits{}) == nil {
			return out, nil
		}
	}
	return body, bad
}

// nothing returns the data of a success without a body: the Location of a 201, 202 or 303, which
// says where the created or accepted resource or the result is, or null.
func (c *Call) nothing(r *Reply) []byte {
	if r.Status == 201 || r.Status == 202 || r.Status == 303 {
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
		f.Details = wire.Members(f.Details[:len(f.Details)-1]).Str("upstream_body", z.Clean(clean.Beginning(body, 8*messageRunes), messageRunes, c.Out.Secrets)).End()
	}
	return f
}

// refused returns the failure for an answer that is an error by its status or by an error rule
// of the adapter. body is valid JSON or nil.
func (c *Call) refused(r *Reply, body []byte, z clean.Sanitizer, how Reading) *failure.Failure {
	op, secrets, told := c.Op, c.Out.Secrets, body // rules look at what the API said
	if len(body) > 0 {
		body = clean.Members(body)
	}
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
	if i := c.mapped(r.Status, told); i >= 0 {
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
	if original := (clean.Sanitizer{Off: true, Known: z.Known}).Clean(words, loggedRunes, secrets); original != said {
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
	f := &failure.Failure{Code: failure.SerializationParse, Answered: r.Status}
	kind, params := mediaType(r.ContentType)
	said := z.Clean(r.ContentType, 200, secrets)
	shown, _, _ := strings.Cut(said, ";")
	shown = clean.Text(strings.ToLower(strings.TrimSpace(shown)), 100)
	d := wire.Members(nil).Str("content_type", said)
	switch {
	case kind == "text/html" || kind == "application/xhtml+xml":
		f.Message = "Server returned HTML instead of JSON (HTTP " + strconv.Itoa(r.Status) + ")"
		d = d.Str("body_preview", z.Clean(preview(body), previewRunes, secrets))
	case isBinary(kind) || !isJSON(kind) && !utf8.Valid(body) || otherCharset(params["charset"]):
		shown = cmp.Or(shown, "application/octet-stream")
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
	return clean.Beginning(body, 8*previewRunes)
}
