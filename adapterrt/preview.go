package adapterrt

import (
	"context"
	"slices"
	"strings"

	"github.com/dragoman-proxy/dragoman/translate/wire"
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
		if v := &c.values[i]; p.sensitive && v.kind > wire.Null {
			*v = value{raw: []byte(`"..."`), kind: wire.String}
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
	p := &Preview{Method: o.method}
	p.set("Accept", "application/json")
	p.set("User-Agent", rt.opt.UserAgent)
	if o.hasBody {
		p.set("Content-Type", o.contentType)
	}
	for _, h := range slices.Concat(a.target.headers, o.headers) {
		p.set(h.name, h.value)
	}
	url, params := len(o.url.buf), len(o.headers)
	if a.auth.kind == authOAuth {
		p.set(a.auth.header, a.auth.prefix+"...")
	} else if f := rt.authorize(ctx, a, o); f != nil {
		return nil, f
	}
	for _, h := range o.headers[params:] {
		prefix := a.auth.prefix
		if a.auth.kind == authBasic {
			prefix = "Basic "
		}
		p.set(h.name, prefix+maskedCredential(strings.TrimPrefix(h.value, prefix)))
	}
	p.URL, p.Body = string(o.url.buf[:url]), string(o.body.buf)
	if name, key, ok := strings.Cut(string(o.url.buf[url:]), "="); ok {
		p.URL += name + "=" + maskedCredential(key)
	}
	return p, nil
}

// set is what http.Header's Set does, in order.
func (p *Preview) set(name, value string) {
	for i := range p.Header {
		if strings.EqualFold(p.Header[i].Name, name) {
			p.Header[i].Value = value
			return
		}
	}
	p.Header = append(p.Header, Header{name, value})
}
