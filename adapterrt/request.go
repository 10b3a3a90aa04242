package adapterrt

import (
	"fmt"
	"net/url"
	"strings"
	"time"

	"github.com/dragoman-proxy/dragoman/translate/wire"
)

// outgoing is the HTTP request that an operation becomes.
type outgoing struct {
	method      string
	url         pairs // absolute, all of it escaped
	body        pairs
	hasBody     bool
	contentType string
	headers     []header // parameters' and auth's; the adapter's own are added when it is sent
	secrets     []string // credentials in it, for masking
	timeout     time.Duration
	repeatable  bool
	id          string // the request's, told to the API as X-Request-Id
	trace       []Header
}

func (o *outgoing) reset() {
	clear(o.headers)
	clear(o.secrets)
	*o = outgoing{
		url: pairs{buf: o.url.buf[:0], first: '?'}, body: pairs{buf: o.body.buf[:0]},
		headers: o.headers[:0], secrets: o.secrets[:0],
	}
}

// isTraceHeader tells the headers that say which trace a request belongs to.
func isTraceHeader(name string) bool {
	return strings.EqualFold(name, "traceparent") || strings.EqualFold(name, "tracestate")
}

// pairs is a text that key=value pairs are appended to.
type pairs struct {
	buf   []byte
	first byte // what stands before the first pair, 0 for nothing
	any   bool
}

// next starts another pair.
func (q *pairs) next() {
	switch {
	case q.any:
		q.buf = append(q.buf, '&')
	case q.first != 0:
		q.buf = append(q.buf, q.first)
	}
	q.any = true
}

func (q *pairs) add(key, value string) {
	q.next()
	q.buf = append(appendQueryText(q.buf, key), '=')
	q.buf = appendQueryText(q.buf, value)
}

// build writes the request of a validated call into c.out.
func (c *call) build() *Failure {
	op, o := c.op, &c.out
	o.reset()
	o.method, o.timeout, o.repeatable = op.mapping.method, op.timeout, op.repeatable
	url := append(o.url.buf, op.adapter.target.prefix...)
	for _, seg := range op.mapping.segments {
		url = append(url, '/')
		start := len(url)
		name := ""
		for _, p := range seg {
			if p.name == "" {
				url = append(url, p.literal...)
				continue
			}
			name = p.name
			var f *Failure
			if url, f = c.pathValue(url, p.param); f != nil {
				return f
			}
		}
		if name != "" && isDots(url[start:]) {
			return invalidValue(name, "must not make a path segment of dots")
		}
	}
	o.url.buf = url
	if c.query != "" {
		o.url.next()
		o.url.buf = append(o.url.buf, c.query...)
	} else if f := c.pairs(); f != nil {
		return f
	}
	if f := c.headers(); f != nil {
		return f
	}
	c.payload()
	return nil
}

// pairs writes the query: what maps_to says, then the parameters.
func (c *call) pairs() *Failure {
	op, o := c.op, &c.out
	for _, q := range op.mapping.query {
		o.url.next()
		o.url.buf = append(o.url.buf, q.key...)
		for _, p := range q.value {
			if p.name == "" {
				o.url.buf = append(o.url.buf, p.literal...)
				continue
			}
			if f := c.placeholderText(p.param); f != nil {
				return f
			}
			o.url.buf = appendQueryText(o.url.buf, c.text)
		}
	}
	for _, i := range op.placed[inQuery] {
		c.addPairs(&o.url, i)
	}
	return nil
}

// placeholderText leaves the text of a placeholder's parameter in c.text.
func (c *call) placeholderText(i int) *Failure {
	p, v := c.op.params[i], c.values[i]
	switch v.kind {
	case wire.Absent, wire.Null:
		return missingParam(c.op.name, p, []string{p.name})
	case wire.Object:
		return invalidType(p.name, "string", "object")
	case wire.Array:
		var f *Failure
		n := 0
		wire.Each(v.raw, func(_, e []byte) bool {
			if k := wire.KindOf(e); k == wire.Null || k >= wire.Array {
				f = invalidType(index(p.name, n), "string", kindWords[k])
			}
			n++
			return f == nil
		})
		if f != nil {
			return f
		}
		c.text = appendJoined(c.text[:0], v.raw, p.integerItems())
	default:
		c.text = appendText(c.text[:0], v.raw, p.typ == typeInteger)
	}
	return nil
}

// The length of an encoded path parameter from which servers may balk.
const longPathParam = 2048

// pathValue appends the encoded value of a path parameter to url.
func (c *call) pathValue(url []byte, i int) ([]byte, *Failure) {
	if f := c.placeholderText(i); f != nil {
		return url, f
	}
	p := c.op.params[i]
	if hasEncodedNUL(c.text) {
		return url, invalidEncoding("params."+p.name, strings.Index(string(c.text), "%00"))
	}
	start := len(url)
	url = appendPathValue(url, c.text, p.alwaysEnc)
	if n := len(url) - start; n > longPathParam {
		c.warn(Notice{
			Code:    "VALIDATION_LONG_PATH_PARAM_WARNING",
			Message: "Path parameter '" + p.name + "' is very long",
			Details: wire.Members(nil).Str("param_name", p.name).Int("encoded_length", int64(n)).Int("threshold", longPathParam).End(),
		})
	}
	return url, nil
}

// addPairs adds parameter i to q: one pair, several, or none when it is absent
// or null.
func (c *call) addPairs(q *pairs, i int) {
	p, v := c.op.params[i], c.values[i]
	if v.kind <= wire.Null {
		return
	}
	pair := func(integer bool, raw []byte, keys ...[]byte) {
		q.next()
		q.buf = append(q.buf, p.queryKey...)
		for _, k := range keys {
			q.buf = append(q.buf, "%5B"...)
			q.buf = append(appendQueryText(q.buf, k), "%5D"...)
		}
		q.buf = append(q.buf, '=')
		if wire.KindOf(raw) == wire.Array && p.style != styleJSON {
			c.text = appendJoined(c.text[:0], raw, integer)
		} else {
			c.text = appendText(c.text[:0], raw, integer)
		}
		q.buf = appendQueryText(q.buf, c.text)
	}
	switch {
	case v.kind == wire.Array && p.style == styleRepeat:
		wire.Each(v.raw, func(_, e []byte) bool {
			if wire.KindOf(e) != wire.Null {
				pair(p.integerItems(), e)
			}
			return true
		})
	case v.kind == wire.Object && p.style == styleDeep:
		wire.Each(v.raw, func(k, e []byte) bool {
			if wire.KindOf(e) == wire.Object {
				wire.Each(e, func(k2, e2 []byte) bool {
					pair(false, e2, k, k2)
					return true
				})
			} else if wire.KindOf(e) != wire.Null {
				pair(false, e, k)
			}
			return true
		})
	default:
		pair(p.integerItems(), v.raw)
	}
}

func (c *call) headers() *Failure {
	for _, i := range c.op.placed[inHeader] {
		p, v := c.op.params[i], c.values[i]
		if v.kind <= wire.Null {
			continue
		}
		if v.kind == wire.Array {
			c.text = appendJoined(c.text[:0], v.raw, p.integerItems())
		} else {
			c.text = appendText(c.text[:0], v.raw, p.typ == typeInteger)
		}
		if !isHeaderValue(c.text) {
			return invalidValue(p.name, "must not hold control characters")
		}
		c.out.headers = append(c.out.headers, header{p.wire, string(c.text)})
	}
	return nil
}

// payload writes the body out of the request's own bytes.
func (c *call) payload() {
	op, o := c.op, &c.out
	if op.graphql != nil {
		c.variables()
		return
	}
	if op.adapter.target.form {
		for _, i := range op.placed[inBody] {
			c.addPairs(&o.body, i)
		}
		if o.hasBody = o.body.any; o.hasBody {
			o.contentType = "application/x-www-form-urlencoded"
		}
		return
	}
	body := o.body.buf
	for _, i := range op.placed[inBody] {
		v := c.values[i]
		if v.kind == wire.Absent {
			continue
		}
		if o.hasBody {
			body = append(body, ',')
		} else {
			body = append(body, '{')
			o.hasBody, o.contentType = true, "application/json"
		}
		body = append(body, op.params[i].bodyKey...)
		body = append(body, v.raw...)
	}
	if o.hasBody {
		body = append(body, '}')
	}
	o.body.buf = body
}

// parsedURL is the request's URL, sure to be on the adapter's own host and under
// its base path. Encoding already sees to that; this is the second lock.
func (t *target) parsedURL(raw []byte) (*url.URL, error) {
	u, err := url.Parse(string(raw))
	switch {
	case err != nil:
		return nil, fmt.Errorf("built no valid URL: %w", err)
	case u.User != nil || u.Fragment != "" || originOf(u) != t.origin:
		return nil, fmt.Errorf("built a URL of another host than %s", t.origin)
	case !strings.HasPrefix(u.EscapedPath(), t.path+"/"):
		return nil, fmt.Errorf("built a URL outside of %s", t.baseURL)
	}
	return u, nil
}
