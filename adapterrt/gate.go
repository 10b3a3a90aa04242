package adapterrt

import (
	"bytes"
	"context"
	"crypto/sha256"
	"slices"
	"strings"
	"time"

	"github.com/dragoman-proxy/dragoman/translate/wire"
)

// gate lets parameters through only while the API says that it supports them. It
// asks each time, unless told to remember, so that a change over there counts at
// once.
type gate struct {
	params      []int
	sourceName  string
	source      *operation
	at          string // in the file, for problems
	sourceLine  int
	arguments   []gateValue
	list        []string
	match       []gateValue
	capability  []string
	capText     string
	matchValues bool
	subject     int
	kind        string // invalid_expand
	deny        bool   // when nobody can say
	ttl         time.Duration
	timeout     time.Duration
}

// gateValue is a literal or the value of a parameter.
type gateValue struct {
	names []string
	raw   []byte
	param int // -1 for the literal
}

func (c *checker) gates(n *node, path string, op *operation) {
	v := n.get("capability_gate")
	if v == nil || v.kind == wire.Null {
		return
	}
	path += ".capability_gate"
	list := []*node{v}
	if v.kind == wire.Array {
		list = v.list
	}
	for i, e := range list {
		at := path
		if v.kind == wire.Array {
			at = index(path, i)
		}
		if e.kind != wire.Object {
			c.wrong(SchemaInvalidType, at, "a gate must be a map", "object", e, 0)
			continue
		}
		c.gate(e, at, op)
	}
}

func (c *checker) gate(n *node, path string, op *operation) {
	c.known(n, path, "params", "source", "source_params", "list", "match", "capability", "match_values", "subject", "error_code", "on_unavailable", "ttl_ms", "timeout_ms")
	g := &gate{subject: -1, at: path, sourceLine: n.line}
	param := func(name, at string, line int) int {
		if k, ok := op.param([]byte(name)); ok {
			return k
		}
		c.wrong(SchemaUnresolvedRef, at, "operation has no parameter "+firstRunes(name, 60), "a declared parameter", nil, line)
		return -1
	}
	names := c.strs(n, path, "params")
	if len(names) == 0 {
		c.wrong(SchemaMissingField, path+".params", "gated parameters are required", "non-empty list", n.get("params"), n.line)
	}
	for _, name := range names {
		g.params = append(g.params, param(name, path+".params", n.line))
	}
	g.sourceName, _ = c.need(n, path, "source", "Source of the gate")
	g.list = splitPath(c.str(n, path, "list"))
	g.capText, _ = c.need(n, path, "capability", "Capability")
	g.capability = splitPath(g.capText)
	g.matchValues = c.flag(n, path, "match_values", false)
	if s := c.str(n, path, "subject"); s != "" {
		g.subject = param(s, path+".subject", n.line)
	}
	code, v := c.need(n, path, "error_code", "Error code")
	if g.kind = code; v != nil && !isSnake(code) {
		c.wrong(SchemaInvalidValue, path+".error_code", "error_code is not valid", "snake_case", v, 0)
	}
	g.deny = c.word(n, path, "on_unavailable", "allow", "deny") == "deny"
	g.ttl = time.Duration(c.whole(n, path, "ttl_ms", 0, 0, 86_400_000)) * time.Millisecond
	g.timeout = time.Duration(c.whole(n, path, "timeout_ms", 2000, 1, 60_000)) * time.Millisecond
	values := func(key string) (out []gateValue) {
		m := c.get(n, path, key, wire.Object)
		if m == nil {
			return nil
		}
		for _, f := range m.fields {
			v := gateValue{names: strings.Split(f.key, "|"), raw: f.val.json(nil), param: -1}
			if s := f.val.text; f.val.kind == wire.String && strings.ContainsAny(s, "{}") {
				if inner := strings.TrimSuffix(strings.TrimPrefix(s, "{"), "}"); len(inner) == len(s)-2 && isParamName(inner) {
					v.param = param(inner, join(path+"."+key, f.key), f.line)
				} else {
					c.wrong(SchemaInvalidValue, join(path+"."+key, f.key), "value must be a literal or one placeholder", "{param}", f.val, 0)
				}
			}
			out = append(out, v)
		}
		return out
	}
	g.arguments, g.match = values("source_params"), values("match")
	if len(g.match) == 0 {
		c.wrong(SchemaMissingField, path+".match", "match is required", "object", n.get("match"), n.line)
	}
	op.gates = append(op.gates, g)
}

// sources ties gates to the operations they ask, once all are known.
func (c *checker) sources(a *Adapter) {
	for _, op := range a.ops {
		for _, g := range op.gates {
			if g.sourceName == "" {
				continue
			}
			g.source = a.index[g.sourceName]
			if g.source == nil || g.source.category != Read || g.source.mapping == nil {
				c.wrong(SchemaUnresolvedRef, g.at+".source",
					"source is no read operation of this adapter: "+firstRunes(g.sourceName, 60), "a read operation", nil, g.sourceLine)
				continue
			}
			for _, v := range g.arguments {
				if _, ok := g.source.param([]byte(v.names[0])); !ok {
					c.wrong(SchemaUnresolvedRef, g.at+".source_params",
						"source has no parameter "+firstRunes(v.names[0], 60), "a parameter of "+g.sourceName, nil, g.sourceLine)
				}
			}
		}
	}
}

// gate asks all gates of the operation. The target is called only when none
// refuses.
func (c *call) gate(ctx context.Context, rt *Runtime, r *Result) *Failure {
	for _, g := range c.op.gates {
		asked := c.asked(g)
		if len(asked) == 0 {
			continue
		}
		start := rt.opt.Now()
		row, ok := c.row(ctx, rt, g)
		r.Call.Gates += rt.opt.Now().Sub(start)
		switch {
		case ctx.Err() != nil:
			return &Failure{Code: TransportTimeout, Message: "Request cancelled", Cause: errCancelled}
		case !ok && !g.deny:
			r.Call.Gate = "open" // the API may judge for itself
		case !ok || !g.supports(row, asked):
			r.Call.Gate = "refused"
			return c.gated(g, asked, ok)
		default:
			r.Call.Gate = "passed"
		}
	}
	return nil
}

// asked is what the gated parameters of the request ask for; nothing when none is
// given or all are empty.
func (c *call) asked(g *gate) (asked []string) {
	for _, k := range g.params {
		v := c.values[k]
		if v.kind <= wire.Null || v.fallback {
			continue
		}
		switch v.kind {
		case wire.String:
			if s := string(wire.Unquoted(v.raw)); s != "" {
				asked = append(asked, s)
			}
		case wire.Array:
			wire.Each(v.raw, func(_, e []byte) bool {
				asked = append(asked, string(appendText(nil, e, false)))
				return true
			})
		case wire.Object:
			wire.Each(v.raw, func(name, _ []byte) bool {
				asked = append(asked, string(name))
				return true
			})
		default:
			asked = append(asked, c.op.params[k].name)
		}
	}
	return asked
}

// value is what a gateValue stands for in this request, nil when it is not there.
func (c *call) value(v gateValue) []byte {
	if v.param < 0 {
		return v.raw
	}
	if p := c.values[v.param]; p.kind > wire.Null {
		return p.raw
	}
	return nil
}

// row asks the source for the row that speaks of this request. It reports false
// when there was no answer or no such row.
func (c *call) row(ctx context.Context, rt *Runtime, g *gate) (row []byte, ok bool) {
	inner := new(call)
	inner.op, inner.values = g.source, make([]value, len(g.source.params))
	for _, a := range g.arguments {
		if raw := c.value(a); raw != nil {
			k, _ := g.source.param([]byte(a.names[0])) // there is one, or the file was not loaded
			inner.values[k] = value{raw: raw, kind: wire.KindOf(raw), inside: true}
		}
	}
	if inner.validate(false) != nil || inner.build() != nil {
		return nil, false
	}
	inner.out.trace = c.trace
	data := inner.gateAnswer(ctx, rt, g)
	if data == nil {
		return nil, false
	}
	rows := wire.Lookup(data, g.list)
	if rows == nil || wire.KindOf(rows) != wire.Array {
		return nil, false
	}
	wire.Each(rows, func(_, e []byte) bool {
		for _, m := range g.match {
			if !c.matches(m, e) {
				return true
			}
		}
		row = e
		return false
	})
	return row, row != nil
}

// gateAnswer fetches what the source says, by the caller's credentials; nil when
// it says nothing of use.
func (c *call) gateAnswer(ctx context.Context, rt *Runtime, g *gate) []byte {
	a := c.op.adapter
	h := sha256.New()
	h.Write([]byte("gate\x00"))
	h.Write(a.digest[:])
	h.Write(c.out.url.buf)
	h.Write(append([]byte{0}, c.out.body.buf...))
	if rt.authorize(ctx, a, &c.out) != nil {
		return nil
	}
	for _, s := range c.out.secrets {
		sum := sha256.Sum256([]byte(s))
		h.Write(sum[:])
	}
	var key cacheKey
	h.Sum(key[:0])
	var answer *reply
	if old := rt.cache.get(key); g.ttl > 0 && old != nil && rt.opt.Now().Before(old.fresh) {
		answer = old.reply
	} else {
		c.out.timeout, c.out.repeatable = g.timeout, false
		before := rt.cache.changes(a)
		var f *Failure
		if answer, f = c.sendLimited(ctx, rt); f != nil {
			return nil
		}
		if g.ttl > 0 && answer.status == 200 {
			rt.cache.put(&stored{key: key, adapter: a, reply: answer.copy(), fresh: rt.opt.Now().Add(g.ttl), size: len(answer.body) + 1024}, before)
		}
	}
	data, f := rt.interpret(c.op, answer, c.out.secrets)
	if f == nil && c.op.graphql != nil {
		data, f = c.graph(rt, data)
	}
	if f != nil {
		return nil
	}
	return data
}

func (c *call) matches(m gateValue, row []byte) bool {
	want := c.value(m)
	if want == nil {
		return false
	}
	for _, name := range m.names {
		if v := wire.Member(row, name); v != nil && wire.KindOf(v) > wire.Null && bytes.Equal(appendText(nil, v, false), appendText(nil, want, false)) {
			return true
		}
	}
	return false
}

// supports reports whether the row has the capability, of the values asked for
// when those must match.
func (g *gate) supports(row []byte, asked []string) bool {
	v := wire.Lookup(row, g.capability)
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
			names = append(names, string(appendText(nil, e, false)))
			return true
		})
	case wire.Object:
		wire.Each(v, func(name, _ []byte) bool {
			names = append(names, string(name))
			return true
		})
	}
	if len(names) == 0 || !g.matchValues {
		return len(names) > 0
	}
	for _, a := range asked {
		if !slices.Contains(names, a) {
			return false
		}
	}
	return true
}

// gated is the failure for parameters that are not supported, or of which nobody
// knows.
func (c *call) gated(g *gate, asked []string, known bool) *Failure {
	source := g.source.mapping.method + " " + g.source.adapter.target.path + g.source.mapping.template + " (" + g.capText + ")"
	var names []string
	for _, k := range g.params {
		if v := c.values[k]; v.kind > wire.Null && !v.fallback {
			names = append(names, c.op.params[k].name)
		}
	}
	if len(asked) > maxUnknown {
		asked = asked[:maxUnknown]
	}
	d := wire.Members(nil).Str("type", g.kind)
	about := "here"
	if g.subject >= 0 {
		p, v := c.op.params[g.subject], c.values[g.subject]
		d = d.Str("subject", p.name)
		if v.kind > wire.Null {
			said := cleanText(string(appendText(nil, v.raw, p.typ == typeInteger)), 200)
			d = d.Str("value", said)
			about = "for " + p.name + " '" + said + "'"
		}
	}
	requested := make([]string, len(asked))
	for i, a := range asked {
		requested[i] = cleanText(a, 100)
	}
	verb := " not supported "
	if !known {
		verb = " not known to be supported "
	}
	return &Failure{
		Code: Code(strings.ToUpper(g.kind)),
		Message: strings.Join(names, ", ") + verb + about + ". Requested: " + firstRunes(strings.Join(requested, ", "), 300) +
			". Consult " + source + ".",
		Details: d.Strs("requested", requested).Str("source", source).End(),
	}
}
