package httpcall

import (
	"fmt"
	"net/url"
	"strconv"
	"strings"

	"github.com/dragoman-proxy/dragoman/adapterrt/escape"
	"github.com/dragoman-proxy/dragoman/adapterrt/failure"
	"github.com/dragoman-proxy/dragoman/adapterrt/file"
	"github.com/dragoman-proxy/dragoman/translate/wire"
)

// isTraceHeader reports whether a header says which trace a request belongs to.
func isTraceHeader(name string) bool {
	return strings.EqualFold(name, "traceparent") || strings.EqualFold(name, "tracestate")
}

// Build writes the request of a validated call into c.Out.
func (c *Call) Build() *failure.Failure {
	op, o := c.Op, &c.Out
	o.reset()
	o.Method, o.Target, o.Timeout, o.Repeatable, o.Changes = op.Mapping.Method, op.Target, op.Timeout, op.Repeatable, op.Category != file.Read
	o.Anonymous, o.Scopes = op.Anonymous, op.Scopes
	if a := op.Answer; a != nil && (a.As == file.ReadLines || a.As == file.ReadEvents) {
		o.Stream = a
	}
	url := append(o.URL.Text, op.Target.Prefix...)
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
			if q, v := op.Params[p.Param], c.Values[p.Param]; v.Kind == wire.Array && q.Style.Separator() != "" {
				o.URL.Text = c.eachElement(o.URL.Text, v.Raw, q, escape.AppendQuery[[]byte])
			} else {
				o.URL.Text = escape.AppendQuery(o.URL.Text, c.text)
			}
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
	write := func(url, text []byte) []byte {
		if p.Encode == file.EncodeReserved {
			return escape.AppendReserved(url, text)
		}
		return escape.AppendPath(url, text, p.Encode == file.EncodeAlways)
	}
	if v := c.Values[i]; v.Kind == wire.Array && p.Style.Separator() != "" {
		url = c.eachElement(url, v.Raw, p, write)
	} else {
		url = write(url, c.text)
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

// eachElement appends the elements of an array, a value of p, to dst, each escaped by write, with the separator of p's style between them.
func (c *Call) eachElement(dst, raw []byte, p *file.Param, write func(dst, text []byte) []byte) []byte {
	n := 0
	wire.Each(raw, func(_, v []byte) bool {
		if n++; n > 1 {
			dst = append(dst, p.Style.Separator()...)
		}
		c.text = AppendText(c.text[:0], v, p.IntegerItems())
		dst = write(dst, c.text)
		return true
	})
	return dst
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
		if v.Kind == wire.Array || v.Kind == wire.Object && p.Style == file.StyleCSV {
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

// ParsedURL parses the request's URL. It returns an error unless the URL is on the target's
// host and under its base path. The encoding ensures that already; this is a second check.
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
