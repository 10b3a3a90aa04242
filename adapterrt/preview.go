package adapterrt

import (
	"slices"
	"strings"

	"github.com/dragoman-proxy/dragoman/adapterrt/clean"
	"github.com/dragoman-proxy/dragoman/adapterrt/escape"
	"github.com/dragoman-proxy/dragoman/adapterrt/failure"
	"github.com/dragoman-proxy/dragoman/adapterrt/file"
	"github.com/dragoman-proxy/dragoman/adapterrt/httpcall"
	"github.com/dragoman-proxy/dragoman/translate/wire"
)

// Preview is an HTTP request that was built and not sent.
type Preview struct {
	Method string
	URL    string
	Header []file.Header
	Body   string
}

// Preview builds the HTTP request of req and sends nothing, neither that request nor one
// for a token. It does not check confirmations, gates or limits. It masks credentials and
// the values of sensitive parameters, and names credentials that are missing.
func (rt *Runtime) Preview(at Endpoint, req *Request) (*Preview, *failure.Failure) {
	c := rt.calls.Get().(*call)
	defer c.release(&rt.calls)
	if f := c.env.parse(req.Body, rt.opt.limits()); f != nil {
		return nil, f
	}
	v := rt.live.Load().view(req.Grant)
	_, found, f := v.find(at, &c.env)
	if f != nil {
		return nil, f
	}
	op := found.op
	if f := v.rightEndpoint(op, at); f != nil {
		return nil, f
	}
	if op.Builtin {
		return nil, failure.InvalidValue("operation", "makes no request")
	}
	if f := c.resolve(found.a, op); f != nil {
		return nil, f
	}
	if f := c.Validate(c.unknown); f != nil {
		return nil, f
	}
	for i, p := range op.Params {
		if v := &c.Values[i]; p.Sensitive && v.Kind > wire.Null {
			*v = httpcall.Value{Raw: []byte(`"..."`), Kind: wire.String}
			if p.Place == file.InBody && op.Request != nil && op.Request.As >= file.AsMultipart {
				v.Raw = []byte(`"Li4u"`) // "..." in base64, because the body may demand base64
			}
		}
	}
	page, f := c.WantedPage(rt.cursors)
	if f != nil {
		return nil, f
	}
	if page != nil {
		c.Turn(page)
	}
	if f := c.Build(); f != nil {
		return nil, f
	}
	a, o := found.a, &c.Out
	p := &Preview{Method: o.Method}
	p.set("Accept", "application/json")
	p.set("User-Agent", rt.opt.UserAgent)
	if o.HasBody {
		p.set("Content-Type", o.ContentType)
	}
	for _, h := range slices.Concat(a.Target.Headers, o.Headers) {
		p.set(h.Name, h.Value)
	}
	url, params := len(o.URL.Text), len(o.Headers)
	missing, f := a.signer.Sketch(o)
	if f != nil {
		return nil, f
	}
	for _, h := range o.Headers[params:] {
		p.set(h.Name, hidden(&a.Auth, h, missing))
	}
	if _, err := httpcall.ParsedURL(o.Target, o.URL.Text); err != nil { // it would not be sent
		return nil, failure.Ours("", clean.Redact(err, o.Secrets))
	}
	p.URL, p.Body = string(o.URL.Text[:url]), string(o.Body.Text)
	pairs := strings.Split(string(o.URL.Text[url:]), "&")
	for i, pair := range pairs {
		if name, key, ok := strings.Cut(pair, "="); ok {
			pairs[i] = name + "=" + masked(key, missing)
		}
	}
	p.URL += strings.Join(pairs, "&")
	return p, nil
}

// hidden returns the value of a header that carries a credential, with the credential
// masked.
func hidden(au *file.Auth, h file.Header, missing []string) string {
	if h.Name == "Cookie" {
		pairs := strings.Split(h.Value, "; ")
		for i, pair := range pairs {
			name, value, _ := strings.Cut(pair, "=")
			pairs[i] = name + "=" + masked(value, missing)
		}
		return strings.Join(pairs, "; ")
	}
	prefix := ""
	for _, s := range au.Schemes() {
		switch {
		case s.Header != h.Name:
		case s.Kind == file.AuthBasic:
			prefix = "Basic "
		default:
			prefix = s.Prefix
		}
	}
	return prefix + masked(strings.TrimPrefix(h.Value, prefix), missing)
}

// masked returns a credential in a form that may be shown, or the words that stand for a missing one, unescaped.
func masked(value string, missing []string) string {
	for _, words := range missing {
		if value == words || value == string(escape.AppendQuery(nil, words)) {
			return words
		}
	}
	return clean.Credential(value)
}

// set does what http.Header.Set does, and keeps the order of the headers.
func (p *Preview) set(name, value string) {
	for i := range p.Header {
		if strings.EqualFold(p.Header[i].Name, name) {
			p.Header[i].Value = value
			return
		}
	}
	p.Header = append(p.Header, file.Header{Name: name, Value: value})
}
