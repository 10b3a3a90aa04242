package adapterrt

import (
	"fmt"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/dragoman-proxy/dragoman/adapterrt/escape"
	"github.com/dragoman-proxy/dragoman/adapterrt/failure"
	"github.com/dragoman-proxy/dragoman/adapterrt/file"
	"github.com/dragoman-proxy/dragoman/translate/wire"
)

// outgoing is the HTTP request that an operation becomes.
type outgoing struct {
	method      string
	url         pairs // absolute, all of it escaped
	body        pairs
	hasBody     bool
	contentType string
	headers     []file.Header // parameters' and auth's; the adapter's own are added when it is sent
	secrets     []string      // credentials in it, for masking
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
	q.buf = append(escape.AppendQuery(q.buf, key), '=')
	q.buf = escape.AppendQuery(q.buf, value)
}

// build writes the request of a validated call into c.out.
func (c *call) build() *failure.Failure {
	op, o := c.op, &c.out
	o.reset()
	o.method, o.timeout, o.repeatable = op.Mapping.Method, op.Timeout, op.Repeatable
	url := append(o.url.buf, op.Adapter.Target.Prefix...)
	for _, seg := range op.Mapping.Segments {
		url = append(url, '/')
		start := len(url)
		name := ""
		for _, p := range seg {
			if p.Name == "" {
				url = append(url, p.Literal...)
				continue
			}
			name = p.Name
			var f *failure.Failure
			if url, f = c.pathValue(url, p.Param); f != nil {
				return f
			}
		}
		if name != "" && escape.IsDots(url[start:]) {
			return failure.InvalidValue(name, "must not make a path segment of dots")
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
func (c *call) pairs() *failure.Failure {
	op, o := c.op, &c.out
	for _, q := range op.Mapping.Query {
		o.url.next()
		o.url.buf = append(o.url.buf, q.Key...)
		for _, p := range q.Value {
			if p.Name == "" {
				o.url.buf = append(o.url.buf, p.Literal...)
				continue
			}
			if f := c.placeholderText(p.Param); f != nil {
				return f
			}
			o.url.buf = escape.AppendQuery(o.url.buf, c.text)
		}
	}
	for _, i := range op.Placed[file.InQuery] {
		c.addPairs(&o.url, i)
	}
	return nil
}

// placeholderText leaves the text of a placeholder's parameter in c.text.
func (c *call) placeholderText(i int) *failure.Failure {
	p, v := c.op.Params[i], c.values[i]
	switch v.kind {
	case wire.Absent, wire.Null:
		return missingParam(c.op.Name, p, []string{p.Name})
	case wire.Object:
		return failure.InvalidType(p.Name, "string", "object")
	case wire.Array:
		var f *failure.Failure
		n := 0
		wire.Each(v.raw, func(_, e []byte) bool {
			if k := wire.KindOf(e); k == wire.Null || k >= wire.Array {
				f = failure.InvalidType(p.Name+"["+strconv.Itoa(n)+"]", "string", k.String())
			}
			n++
			return f == nil
		})
		if f != nil {
			return f
		}
		c.text = appendJoined(c.text[:0], v.raw, p.IntegerItems())
	default:
		c.text = appendText(c.text[:0], v.raw, p.Type == file.TypeInteger)
	}
	return nil
}

// The length of an encoded path parameter from which servers may balk.
const longPathParam = 2048

// pathValue appends the encoded value of a path parameter to url.
func (c *call) pathValue(url []byte, i int) ([]byte, *failure.Failure) {
	if f := c.placeholderText(i); f != nil {
		return url, f
	}
	p := c.op.Params[i]
	if escape.HasEncodedNUL(c.text) {
		return url, failure.InvalidEncoding("params."+p.Name, strings.Index(string(c.text), "%00"))
	}
	start := len(url)
	url = escape.AppendPath(url, c.text, p.AlwaysEncode)
	if n := len(url) - start; n > longPathParam {
		c.warn(failure.Notice{
			Code:    "VALIDATION_LONG_PATH_PARAM_WARNING",
			Message: "Path parameter '" + p.Name + "' is very long",
			Details: wire.Members(nil).Str("param_name", p.Name).Int("encoded_length", int64(n)).Int("threshold", longPathParam).End(),
		})
	}
	return url, nil
}

// addPairs adds parameter i to q: one pair, several, or none when it is absent
// or null.
func (c *call) addPairs(q *pairs, i int) {
	p, v := c.op.Params[i], c.values[i]
	if v.kind <= wire.Null {
		return
	}
	pair := func(integer bool, raw []byte, keys ...[]byte) {
		q.next()
		q.buf = append(q.buf, p.QueryKey...)
		for _, k := range keys {
			q.buf = append(q.buf, "%5B"...)
			q.buf = append(escape.AppendQuery(q.buf, k), "%5D"...)
		}
		q.buf = append(q.buf, '=')
		if wire.KindOf(raw) == wire.Array && p.Style != file.StyleJSON {
			c.text = appendJoined(c.text[:0], raw, integer)
		} else {
			c.text = appendText(c.text[:0], raw, integer)
		}
		q.buf = escape.AppendQuery(q.buf, c.text)
	}
	switch {
	case v.kind == wire.Array && p.Style == file.StyleRepeat:
		wire.Each(v.raw, func(_, e []byte) bool {
			if wire.KindOf(e) != wire.Null {
				pair(p.IntegerItems(), e)
			}
			return true
		})
	case v.kind == wire.Object && p.Style == file.StyleDeep:
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
		pair(p.IntegerItems(), v.raw)
	}
}

func (c *call) headers() *failure.Failure {
	for _, i := range c.op.Placed[file.InHeader] {
		p, v := c.op.Params[i], c.values[i]
		if v.kind <= wire.Null {
			continue
		}
		if v.kind == wire.Array {
			c.text = appendJoined(c.text[:0], v.raw, p.IntegerItems())
		} else {
			c.text = appendText(c.text[:0], v.raw, p.Type == file.TypeInteger)
		}
		if !file.IsHeaderValue(c.text) {
			return failure.InvalidValue(p.Name, "must not hold control characters")
		}
		c.out.headers = append(c.out.headers, file.Header{Name: p.Wire, Value: string(c.text)})
	}
	return nil
}

// payload writes the body out of the request's own bytes.
func (c *call) payload() {
	op, o := c.op, &c.out
	if op.Graphql != nil {
		c.variables()
		return
	}
	if op.Adapter.Target.Form {
		for _, i := range op.Placed[file.InBody] {
			c.addPairs(&o.body, i)
		}
		if o.hasBody = o.body.any; o.hasBody {
			o.contentType = "application/x-www-form-urlencoded"
		}
		return
	}
	body := o.body.buf
	for _, i := range op.Placed[file.InBody] {
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
		body = append(body, op.Params[i].BodyKey...)
		body = append(body, v.raw...)
	}
	if o.hasBody {
		body = append(body, '}')
	}
	o.body.buf = body
}

// parsedURL is the request's URL, sure to be on the adapter's own host and under
// its base path. Encoding already sees to that; this is the second lock.
func parsedURL(t *file.Target, raw []byte) (*url.URL, error) {
	u, err := url.Parse(string(raw))
	switch {
	case err != nil:
		return nil, fmt.Errorf("built no valid URL: %w", err)
	case u.User != nil || u.Fragment != "" || file.OriginOf(u) != t.Origin:
		return nil, fmt.Errorf("built a URL of another host than %s", t.Origin)
	case !strings.HasPrefix(u.EscapedPath(), t.Path+"/"):
		return nil, fmt.Errorf("built a URL outside of %s", t.BaseURL)
	}
	return u, nil
}
