package httpcall

import (
	"bytes"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/dragoman-proxy/dragoman/adapterrt/escape"
	"github.com/dragoman-proxy/dragoman/adapterrt/failure"
	"github.com/dragoman-proxy/dragoman/adapterrt/file"
	"github.com/dragoman-proxy/dragoman/translate/wire"
)

// Outgoing is the HTTP request that an operation becomes.
type Outgoing struct {
	Method      string
	URL         Pairs // absolute and escaped
	Body        Pairs
	HasBody     bool
	ContentType string
	Headers     []file.Header // of parameters and auth; those of the adapter are added when the request is sent
	Secrets     []string      // credentials in it, for masking
	Timeout     time.Duration
	Repeatable  bool
	Stream      *file.Answer // how an answer that arrives item by item is read; nil for other answers
	Progress    Progress     // receives the progress of such an answer; nil for none
	Sign        Sign         // signs the request when it is sent; nil for none
	ID          string       // of the client's request, sent to the API as X-Request-Id
	Trace       []file.Header
}

// Sign adds the signature of a request with this body. It is called for each attempt, because a
// signature has a date.
type Sign func(req *http.Request, body []byte) error

func (o *Outgoing) reset() {
	clear(o.Headers)
	clear(o.Secrets)
	*o = Outgoing{
		URL: Pairs{Text: o.URL.Text[:0], first: '?'}, Body: Pairs{Text: o.Body.Text[:0]},
		Headers: o.Headers[:0], Secrets: o.Secrets[:0],
	}
}

// isTraceHeader reports whether a header says which trace a request belongs to.
func isTraceHeader(name string) bool {
	return strings.EqualFold(name, "traceparent") || strings.EqualFold(name, "tracestate")
}

// Pairs is a text that key=value pairs are appended to.
type Pairs struct {
	Text  []byte
	first byte // written before the first pair, 0 for nothing
	any   bool
	keys  int // bytes of keys in brackets; a long name can make them many, even if the request is small
}

// maxPairs is the largest size of pairs in bytes. They can be much larger than the request, because
// the name of an object is in the keys of all its members.
const maxPairs = 10 << 20

func (q *Pairs) full() bool { return len(q.Text)+q.keys > maxPairs }

// next starts another pair.
func (q *Pairs) next() {
	switch {
	case q.any:
		q.Text = append(q.Text, '&')
	case q.first != 0:
		q.Text = append(q.Text, q.first)
	}
	q.any = true
}

// Add appends a pair, both parts escaped.
func (q *Pairs) Add(key, value string) {
	q.next()
	q.Text = append(escape.AppendQuery(q.Text, key), '=')
	q.Text = escape.AppendQuery(q.Text, value)
}

// Build writes the request of a validated call into c.Out.
func (c *Call) Build() *failure.Failure {
	op, o := c.Op, &c.Out
	o.reset()
	o.Method, o.Timeout, o.Repeatable = op.Mapping.Method, op.Timeout, op.Repeatable
	if a := op.Answer; a != nil && (a.As == file.ReadLines || a.As == file.ReadEvents) {
		o.Stream = a
	}
	url := append(o.URL.Text, op.Adapter.Target.Prefix...)
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
		if name != "" && escape.Climbs(url[start:]) {
			return failure.InvalidValue(name, "must not make a path segment of dots")
		}
	}
	o.URL.Text = url
	if c.query != "" {
		o.URL.next()
		o.URL.Text = append(o.URL.Text, c.query...)
	} else if f := c.pairs(); f != nil {
		return f
	}
	if f := c.headers(); f != nil {
		return f
	}
	if f := c.payload(); f != nil {
		return f
	}
	grows := op.Request != nil && (op.Request.As == file.AsForm || op.Request.As == file.AsMultipart)
	for _, q := range [...]*Pairs{&o.URL, &o.Body} {
		if q.full() && (grows || q == &o.URL) { // a JSON body is not larger than the request and the file's template
			return failure.TooLarge("request_size", maxPairs, len(q.Text)+q.keys, "bytes")
		}
	}
	return nil
}

// pairs writes the query: first the query of maps_to, then the parameters.
func (c *Call) pairs() *failure.Failure {
	op, o := c.Op, &c.Out
	for _, q := range op.Mapping.Query {
		o.URL.next()
		o.URL.Text = append(o.URL.Text, q.Key...)
		for _, p := range q.Value {
			if p.Name == "" {
				o.URL.Text = append(o.URL.Text, p.Literal...)
				continue
			}
			if f := c.placeholderText(p.Param); f != nil {
				return f
			}
			o.URL.Text = escape.AppendQuery(o.URL.Text, c.text)
		}
	}
	for _, i := range op.Placed[file.InQuery] {
		c.addPairs(&o.URL, i)
	}
	return nil
}

// placeholderText writes the text of a placeholder's parameter into c.text.
func (c *Call) placeholderText(i int) *failure.Failure {
	p, v := c.Op.Params[i], c.Values[i]
	switch v.Kind {
	case wire.Absent, wire.Null:
		return missingParam(c.Op, p, []string{p.Name}, nil)
	case wire.Object:
		return failure.InvalidType(p.Name, "string", "object")
	case wire.Array:
		var f *failure.Failure
		n := 0
		wire.Each(v.Raw, func(_, e []byte) bool {
			if k := wire.KindOf(e); k == wire.Null || k >= wire.Array {
				f = failure.InvalidType(p.Name+"["+strconv.Itoa(n)+"]", "string", k.String())
			}
			n++
			return f == nil
		})
		if f != nil {
			return f
		}
		c.text = appendJoined(c.text[:0], v.Raw, p.IntegerItems())
	default:
		c.text = AppendText(c.text[:0], v.Raw, p.Type == file.TypeInteger)
	}
	return nil
}

// longPathParam is the length of an encoded path parameter above which a server may refuse it.
const longPathParam = 2048

// pathValue appends the encoded value of a path parameter to url.
func (c *Call) pathValue(url []byte, i int) ([]byte, *failure.Failure) {
	if f := c.placeholderText(i); f != nil {
		return url, f
	}
	p := c.Op.Params[i]
	if escape.HasEncodedNUL(c.text) {
		return url, failure.InvalidEncoding("params."+p.Name, strings.Index(string(c.text), "%00"))
	}
	if len(c.text) == 0 && p.MinLength != 0 { // with minLength: 0, an empty value means the collection
		return url, failure.InvalidValue(p.Name, "must not be empty")
	}
	start := len(url)
	if p.Encode == file.EncodeReserved {
		url = escape.AppendReserved(url, c.text)
	} else {
		url = escape.AppendPath(url, c.text, p.Encode == file.EncodeAlways)
	}
	if n := len(url) - start; n > longPathParam {
		c.Warn(failure.Notice{
			Code:    "VALIDATION_LONG_PATH_PARAM_WARNING",
			Message: "Path parameter '" + p.Name + "' is very long",
			Details: wire.Members(nil).Str("param_name", p.Name).Int("encoded_length", int64(n)).Int("threshold", longPathParam).End(),
		})
	}
	return url, nil
}

// addPairs adds parameter i to q as one or several pairs. It adds none if the value is absent
// or null.
func (c *Call) addPairs(q *Pairs, i int) {
	p, v := c.Op.Params[i], c.Values[i]
	if v.Kind <= wire.Null {
		return
	}
	if p.Body != nil && p.Body.Base64 {
		v.Raw = bytes.Clone(c.sent(i))
	}
	pair := func(integer bool, raw []byte, keys ...[]byte) {
		q.next()
		q.Text = append(q.Text, p.QueryKey...)
		for _, k := range keys {
			q.Text = append(q.Text, "%5B"...)
			q.Text = append(escape.AppendQuery(q.Text, k), "%5D"...)
		}
		q.Text = append(q.Text, '=')
		if wire.KindOf(raw) == wire.Array && p.Style != file.StyleJSON {
			c.text = appendJoined(c.text[:0], raw, integer)
		} else {
			c.text = AppendText(c.text[:0], raw, integer)
		}
		q.Text = escape.AppendQuery(q.Text, c.text)
	}
	switch {
	case v.Kind >= wire.Array && p.Style == file.StyleBrackets:
		c.bracketed(q, []byte(p.QueryKey), v.Raw, &p.Definition, p.Index)
	case v.Kind == wire.Array && p.Style == file.StyleSpace:
		c.separated(q, p, v.Raw, "%20")
	case v.Kind == wire.Array && p.Style == file.StylePipe:
		c.separated(q, p, v.Raw, "%7C")
	case v.Kind == wire.Array && p.Style == file.StyleRepeat:
		wire.Each(v.Raw, func(_, e []byte) bool {
			if wire.KindOf(e) != wire.Null {
				pair(p.IntegerItems(), e)
			}
			return true
		})
	case v.Kind == wire.Object && p.Style == file.StyleDeep:
		wire.Each(v.Raw, func(k, e []byte) bool {
			if wire.KindOf(e) == wire.Object {
				wire.Each(e, func(k2, e2 []byte) bool {
					pair(false, e2, k, k2)
					return !q.full()
				})
			} else if wire.KindOf(e) != wire.Null {
				pair(false, e, k)
			}
			return true
		})
	default:
		pair(p.IntegerItems(), v.Raw)
	}
}

func (c *Call) headers() *failure.Failure {
	if q := c.Op.Request; q != nil {
		c.Out.Headers = append(c.Out.Headers, q.Headers...)
	}
	if a := c.Op.Answer; a != nil && a.Accept != "" {
		c.Out.Headers = append(c.Out.Headers, file.Header{Name: "Accept", Value: a.Accept})
	}
	for _, i := range c.Op.Placed[file.InHeader] {
		p, v := c.Op.Params[i], c.Values[i]
		if v.Kind <= wire.Null {
			continue
		}
		if v.Kind == wire.Array {
			c.text = appendJoined(c.text[:0], v.Raw, p.IntegerItems())
		} else {
			c.text = AppendText(c.text[:0], v.Raw, p.Type == file.TypeInteger)
		}
		if !file.IsHeaderValue(c.text) {
			return failure.InvalidValue(p.Name, "must not hold control characters")
		}
		c.Out.Headers = append(c.Out.Headers, file.Header{Name: p.Wire, Value: string(c.text)})
	}
	return nil
}

// ParsedURL parses the request's URL. It returns an error unless the URL is on the adapter's
// own host and under its base path. The encoding ensures that already; this is a second check.
func ParsedURL(t *file.Target, raw []byte) (*url.URL, error) {
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
