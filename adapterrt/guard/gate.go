package guard

import (
	"context"
	"strings"
	"time"

	"github.com/dragoman-proxy/dragoman/adapterrt/failure"
	"github.com/dragoman-proxy/dragoman/adapterrt/file"
	"github.com/dragoman-proxy/dragoman/adapterrt/gate"
	"github.com/dragoman-proxy/dragoman/adapterrt/httpcall"
	"github.com/dragoman-proxy/dragoman/translate/wire"
)

// Gates checks the gates of operations by asking APIs what they support. It caches the
// answers for gates that have a TTL.
type Gates struct {
	Cache   *Cache
	Reading httpcall.Reading
}

// Check checks all gates of the call's operation. verdict is passed, refused, or open if
// the source gave no answer and the gate lets such calls through; it is "" if the call has
// no gated parameters. took is the time that the checks took.
func (k *Gates) Check(ctx context.Context, c *httpcall.Call, api API) (verdict string, took time.Duration, f *failure.Failure) {
	for _, g := range c.Op.Gates {
		x := gated{c, g}
		requested := x.requested()
		if len(requested) == 0 {
			continue
		}
		start := k.Cache.now()
		row, ok := k.row(ctx, x, api)
		took += k.Cache.now().Sub(start)
		switch {
		case ctx.Err() != nil:
			return verdict, took, failure.Cancelled()
		case !ok && !g.Deny:
			verdict = "open" // the API can still refuse the request
		case !ok || !g.Supports(row, requested):
			return "refused", took, x.refused(requested, ok)
		default:
			verdict = "passed"
		}
	}
	return verdict, took, nil
}

// gated is a call at one of its gates.
type gated struct {
	*httpcall.Call
	g *file.Gate
}

// requested returns what the gated parameters of the request request.
func (c gated) requested() (all []string) {
	for _, k := range c.g.Params {
		if c.given(k) {
			all = gate.AppendRequested(all, c.Op.Params[k].Name, c.Values[k].Raw)
		}
	}
	return all
}

// given reports whether the request has a value for the parameter.
func (c gated) given(k int) bool {
	v := c.Values[k]
	return v.Kind > wire.Null && !v.Fallback
}

// value returns the value of v in this request, or nil if the request has none.
func (c gated) value(v file.GateValue) []byte {
	if v.Param < 0 {
		return v.Raw
	}
	if p := c.Values[v.Param]; p.Kind > wire.Null {
		return p.Raw
	}
	return nil
}

// row asks the source and returns the row that applies to this request. It reports false
// if there was no answer or no such row.
func (k *Gates) row(ctx context.Context, c gated, api API) (row []byte, ok bool) {
	g := c.g
	inner := new(httpcall.Call)
	inner.Op, inner.Values = g.Source, make([]httpcall.Value, len(g.Source.Params))
	for _, a := range g.Arguments {
		if raw := c.value(a); raw != nil {
			at, _ := g.Source.Param([]byte(a.Names[0])) // package file has checked that it exists
			inner.Values[at] = httpcall.Value{Raw: raw, Kind: wire.KindOf(raw), Inside: true}
		}
	}
	if inner.Validate(nil) != nil || inner.Build() != nil {
		return nil, false
	}
	inner.Out.Trace = c.Out.Trace
	data := k.answer(ctx, inner, g, api)
	if data == nil {
		return nil, false
	}
	values := make([][]byte, len(g.Wanted))
	for i, m := range g.Wanted {
		values[i] = c.value(m)
	}
	row = g.Row(data, values)
	return row, row != nil
}

// answer returns the data of the source's answer, from the cache or from the API with the
// adapter's credentials. It returns nil if there is no usable answer.
func (k *Gates) answer(ctx context.Context, c *httpcall.Call, g *file.Gate, api API) []byte {
	key, f := keyOf(ctx, c, api, "gate")
	if f != nil {
		return nil
	}
	var answer *httpcall.Reply
	if old := k.Cache.get(key); g.TTL > 0 && old != nil && k.Cache.now().Before(old.fresh) {
		answer = old.reply
	} else {
		c.Out.Timeout, c.Out.Repeatable = g.Timeout, false
		p := k.Cache.begin(c.Op.Adapter)
		defer k.Cache.end(p)
		if answer, f = api.Send(ctx, c); f != nil {
			return nil
		}
		if g.TTL > 0 && answer.Status == 200 {
			k.Cache.put(p, key, answer, g.TTL)
		}
	}
	data, f := c.Read(answer, k.Reading)
	if f != nil {
		return nil
	}
	return data
}

// refused returns the failure for parameters that are not supported. known says whether the
// source gave an answer about them.
func (c gated) refused(requested []string, known bool) *failure.Failure {
	g := c.g
	r := gate.Refusal{
		Requested: requested,
		Source:    g.Source.Mapping.Method + " " + g.Source.Target.Path + g.Source.Mapping.Template + " (" + g.CapabilityText + ")",
		Unknown:   !known,
	}
	for _, k := range g.Params {
		if c.given(k) {
			r.Params = append(r.Params, c.Op.Params[k].Name)
		}
	}
	d := wire.Members(nil).Str("type", g.Kind)
	if g.Subject >= 0 {
		p, v := c.Op.Params[g.Subject], c.Values[g.Subject]
		r.Subject = p.Name
		d = d.Str("subject", p.Name)
		if v.Kind > wire.Null {
			r.Value = string(httpcall.AppendText(nil, v.Raw, p.Type == file.TypeInteger))
		}
	}
	r.Clean()
	if r.Value != "" {
		d = d.Str("value", r.Value)
	}
	return &failure.Failure{
		Code:    failure.Code(strings.ToUpper(g.Kind)),
		Message: r.String(),
		Details: d.Strs("requested", r.Requested).Str("source", r.Source).End(),
	}
}
