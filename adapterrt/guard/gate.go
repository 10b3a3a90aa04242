package guard

import (
	"bytes"
	"context"
	"crypto/sha256"
	"slices"
	"strings"
	"time"

	"github.com/dragoman-proxy/dragoman/adapterrt/clean"
	"github.com/dragoman-proxy/dragoman/adapterrt/failure"
	"github.com/dragoman-proxy/dragoman/adapterrt/file"
	"github.com/dragoman-proxy/dragoman/adapterrt/httpcall"
	"github.com/dragoman-proxy/dragoman/translate/wire"
)

// Gates asks APIs what they support. It keeps answers in the cache, for gates that
// say so.
type Gates struct {
	Cache   *Cache
	Reading httpcall.Reading
}

// Check asks all gates of the call's operation. verdict is passed, refused or open, ""
// when none was asked; took is the time that asking cost.
func (k *Gates) Check(ctx context.Context, c *httpcall.Call, api API) (verdict string, took time.Duration, f *failure.Failure) {
	for _, g := range c.Op.Gates {
		x := gated{c, g}
		asked := x.asked()
		if len(asked) == 0 {
			continue
		}
		start := k.Cache.now()
		row, ok := k.row(ctx, x, api)
		took += k.Cache.now().Sub(start)
		switch {
		case ctx.Err() != nil:
			return verdict, took, failure.Cancelled()
		case !ok && !g.Deny:
			verdict = "open" // the API may judge for itself
		case !ok || !supports(g, row, asked):
			return "refused", took, x.refused(asked, ok)
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

// asked is what the gated parameters of the request ask for; nothing when none is
// given or all are empty.
func (c gated) asked() (asked []string) {
	for _, k := range c.g.Params {
		v := c.Values[k]
		if v.Kind <= wire.Null || v.Fallback {
			continue
		}
		switch v.Kind {
		case wire.String:
			if s := string(wire.Unquoted(v.Raw)); s != "" {
				asked = append(asked, s)
			}
		case wire.Array:
			wire.Each(v.Raw, func(_, e []byte) bool {
				asked = append(asked, string(httpcall.AppendText(nil, e, false)))
				return true
			})
		case wire.Object:
			wire.Each(v.Raw, func(name, _ []byte) bool {
				asked = append(asked, string(name))
				return true
			})
		default:
			asked = append(asked, c.Op.Params[k].Name)
		}
	}
	return asked
}

// value is what a gateValue stands for in this request, nil when it is not there.
func (c gated) value(v file.GateValue) []byte {
	if v.Param < 0 {
		return v.Raw
	}
	if p := c.Values[v.Param]; p.Kind > wire.Null {
		return p.Raw
	}
	return nil
}

// row asks the source for the row that speaks of this request. It reports false
// when there was no answer or no such row.
func (k *Gates) row(ctx context.Context, c gated, api API) (row []byte, ok bool) {
	g := c.g
	inner := new(httpcall.Call)
	inner.Op, inner.Values = g.Source, make([]httpcall.Value, len(g.Source.Params))
	for _, a := range g.Arguments {
		if raw := c.value(a); raw != nil {
			at, _ := g.Source.Param([]byte(a.Names[0])) // there is one, or the file was not loaded
			inner.Values[at] = httpcall.Value{Raw: raw, Kind: wire.KindOf(raw), Inside: true}
		}
	}
	if inner.Validate(nil, false) != nil || inner.Build() != nil {
		return nil, false
	}
	inner.Out.Trace = c.Out.Trace
	data := k.answer(ctx, inner, g, api)
	if data == nil {
		return nil, false
	}
	rows := wire.Lookup(data, g.List)
	if rows == nil || wire.KindOf(rows) != wire.Array {
		return nil, false
	}
	wire.Each(rows, func(_, e []byte) bool {
		for _, m := range g.Match {
			if !c.matches(m, e) {
				return true
			}
		}
		row = e
		return false
	})
	return row, row != nil
}

// answer fetches what the source says, by the caller's credentials; nil when
// it says nothing of use.
func (k *Gates) answer(ctx context.Context, c *httpcall.Call, g *file.Gate, api API) []byte {
	a := c.Op.Adapter
	h := sha256.New()
	h.Write([]byte("gate\x00"))
	h.Write(a.Digest[:])
	h.Write(c.Out.URL.Text)
	h.Write(append([]byte{0}, c.Out.Body.Text...))
	if api.Authorize(ctx, &c.Out) != nil {
		return nil
	}
	for _, s := range c.Out.Secrets {
		sum := sha256.Sum256([]byte(s))
		h.Write(sum[:])
	}
	var key cacheKey
	h.Sum(key[:0])
	var answer *httpcall.Reply
	if old := k.Cache.get(key); g.TTL > 0 && old != nil && k.Cache.now().Before(old.fresh) {
		answer = old.reply
	} else {
		c.Out.Timeout, c.Out.Repeatable = g.Timeout, false
		before := k.Cache.changes(a)
		var f *failure.Failure
		if answer, f = api.Send(ctx, c); f != nil {
			return nil
		}
		if g.TTL > 0 && answer.Status == 200 {
			k.Cache.put(&stored{key: key, adapter: a, reply: answer.Clone(), fresh: k.Cache.now().Add(g.TTL), size: len(answer.Body) + 1024}, before)
		}
	}
	data, f := c.Read(answer, k.Reading)
	if f != nil {
		return nil
	}
	return data
}

func (c gated) matches(m file.GateValue, row []byte) bool {
	want := c.value(m)
	if want == nil {
		return false
	}
	for _, name := range m.Names {
		if v := wire.Member(row, name); v != nil && wire.KindOf(v) > wire.Null && bytes.Equal(httpcall.AppendText(nil, v, false), httpcall.AppendText(nil, want, false)) {
			return true
		}
	}
	return false
}

// supports reports whether the row has the capability, of the values asked for
// when those must match.
func supports(g *file.Gate, row []byte, asked []string) bool {
	v := wire.Lookup(row, g.Capability)
	if v == nil {
		return false
	}
	var names []string
	switch wire.KindOf(v) {
	case wire.Boolean:
		return string(v) == "true"
	case wire.Array:
		wire.Each(v, func(_, e []byte) bool {
			if n := wire.Member(e, "name"); n != nil {
				e = n
			}
			names = append(names, string(httpcall.AppendText(nil, e, false)))
			return true
		})
	case wire.Object:
		wire.Each(v, func(name, _ []byte) bool {
			names = append(names, string(name))
			return true
		})
	}
	if len(names) == 0 || !g.MatchValues {
		return len(names) > 0
	}
	for _, a := range asked {
		if !slices.Contains(names, a) {
			return false
		}
	}
	return true
}

// refused is the failure for parameters that are not supported, or of which nobody
// knows.
func (c gated) refused(asked []string, known bool) *failure.Failure {
	g := c.g
	source := g.Source.Mapping.Method + " " + g.Source.Adapter.Target.Path + g.Source.Mapping.Template + " (" + g.CapabilityText + ")"
	var names []string
	for _, k := range g.Params {
		if v := c.Values[k]; v.Kind > wire.Null && !v.Fallback {
			names = append(names, c.Op.Params[k].Name)
		}
	}
	const most = 100
	if len(asked) > most {
		asked = asked[:most]
	}
	d := wire.Members(nil).Str("type", g.Kind)
	about := "here"
	if g.Subject >= 0 {
		p, v := c.Op.Params[g.Subject], c.Values[g.Subject]
		d = d.Str("subject", p.Name)
		if v.Kind > wire.Null {
			said := clean.Text(string(httpcall.AppendText(nil, v.Raw, p.Type == file.TypeInteger)), 200)
			d = d.Str("value", said)
			about = "for " + p.Name + " '" + said + "'"
		}
	}
	requested := make([]string, len(asked))
	for i, a := range asked {
		requested[i] = clean.Text(a, 100)
	}
	verb := " not supported "
	if !known {
		verb = " not known to be supported "
	}
	return &failure.Failure{
		Code: failure.Code(strings.ToUpper(g.Kind)),
		Message: strings.Join(names, ", ") + verb + about + ". Requested: " + clean.FirstRunes(strings.Join(requested, ", "), 300) +
			". Consult " + source + ".",
		Details: d.Strs("requested", requested).Str("source", source).End(),
	}
}
