package adapterrt

import (
	"bytes"
	"context"
	"slices"
	"strings"
)

// Preview is a request that was built and not sent.
type Preview struct {
	Method string
	URL    string
	Header []Header
	Body   string
}

// Preview builds the request of req and sends nothing: neither the request nor one
// for a token, nor are confirmations, gates or limits asked. Credentials and the
// values of sensitive parameters are masked.
func (rt *Runtime) Preview(ctx context.Context, at Endpoint, req *Request) (*Preview, *Failure) {
	c := rt.calls.Get().(*call)
	defer c.release(&rt.calls)
	if f := c.env.parse(req.Body, limits{rt.opt.MaxRequestBytes, maxText, maxElements, maxNesting}); f != nil {
		return nil, f
	}
	_, op, f := rt.live.Load().find(rt, at, &c.env)
	if f != nil {
		return nil, f
	}
	if f := rt.rightEndpoint(op, at); f != nil {
		return nil, f
	}
	if op.builtin {
		return nil, invalidValue("operation", "makes no request")
	}
	if f := c.resolve(op); f != nil {
		return nil, f
	}
	if f := c.validate(rt.opt.LooseParams); f != nil {
		return nil, f
	}
	for i, p := range op.params {
		if v := &c.values[i]; p.sensitive && v.kind > null {
			*v = value{raw: []byte(`"..."`), kind: text}
		}
	}
	page, f := c.wantedPage(rt)
	if f != nil {
		return nil, f
	}
	if page != nil {
		c.turn(page)
	}
	if f := c.build(); f != nil {
		return nil, f
	}
	a, o := op.adapter, &c.out
	p := &Preview{Method: o.method, Header: []Header{{"Accept", "application/json"}, {"User-Agent", rt.opt.UserAgent}}}
	if o.hasBody {
		p.Header = append(p.Header, Header{"Content-Type", o.contentType})
	}
	for _, h := range slices.Concat(a.target.headers, o.headers) {
		p.Header = append(p.Header, Header{h.name, h.value})
	}
	if a.auth.kind == authOAuth {
		p.Header = append(p.Header, Header{a.auth.header, a.auth.prefix + "..."})
	} else {
		if f := rt.authorize(ctx, a, o); f != nil {
			return nil, f
		}
		if n := len(o.headers); a.auth.header != "" && a.auth.kind != authNone {
			v := strings.TrimPrefix(strings.TrimPrefix(o.headers[n-1].value, a.auth.prefix), "Basic ")
			p.Header = append(p.Header, Header{a.auth.header, strings.Replace(o.headers[n-1].value, v, maskedCredential(v), 1)})
		}
	}
	url := bytes.Clone(o.url.buf)
	for _, s := range o.secrets {
		if len(s) > 0 {
			url = bytes.ReplaceAll(url, []byte(s), []byte(maskedCredential(s)))
		}
	}
	p.URL, p.Body = string(url), string(o.body.buf)
	return p, nil
}
