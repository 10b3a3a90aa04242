package openapi

import (
	"cmp"
	"slices"
	"strings"

	"github.com/dragoman-proxy/dragoman/adapterrt/file"
	"github.com/dragoman-proxy/dragoman/translate/wire"
)

// spot says which operation of an API one is, whatever its name. near is its method and path, without the names of placeholders, which
// people and documents change. Several operations may have that in common: full tells them apart, by the names of placeholders, the
// headers that an operation always sends, and the parameters of the query that it needs. plain is method and path.
type spot struct{ near, plain, full string }

func spotOf(mapsTo, baseURL string, headers, query []string) spot {
	method, path, _ := strings.Cut(mapsTo, " ")
	path = baseURL + strings.TrimSpace(path)
	method = strings.ToUpper(method) + " "
	s := spot{near: method + variable().ReplaceAllString(path, "{}"), plain: method + path}
	s.full = strings.Join(append(append([]string{s.plain}, slices.Sorted(slices.Values(headers))...), slices.Sorted(slices.Values(query))...), " ")
	return s
}

// recordedSpot returns the spot of a key of x-source: plain or full.
func recordedSpot(key string) spot {
	method, rest, _ := strings.Cut(key, " ")
	path, _, _ := strings.Cut(strings.TrimSpace(rest), " ")
	s := spotOf(method+" "+path, "", nil, nil)
	s.full = key
	return s
}

func (op *operation) spot() spot {
	var headers, query []string
	for _, h := range op.request.fixed {
		headers = append(headers, h.key+": "+h.value)
	}
	for _, p := range op.params {
		if p.in == "query" && p.required {
			query = append(query, "?"+p.wire)
		}
	}
	return spotOf(op.mapsTo, op.baseURL, headers, query)
}

func (e *entry) spot() spot {
	var headers, query []string
	if all := e.node.get("request").get("headers"); all.is(wire.Object) {
		for i, name := range all.keys {
			headers = append(headers, name+": "+all.kids[i].text)
		}
	}
	if all := e.node.get("params"); all.is(wire.Object) {
		inURL := strings.HasPrefix(e.mapsTo, "GET ") || strings.HasPrefix(e.mapsTo, "DELETE ")
		for i, name := range all.keys {
			p := all.kids[i]
			if p.flag("required") && cmp.Or(p.str("in"), map[bool]string{true: "query"}[inURL]) == "query" && !strings.Contains(e.mapsTo, "{"+name+"}") {
				query = append(query, "?"+cmp.Or(p.str("wire_name"), name))
			}
		}
	}
	return spotOf(e.mapsTo, e.node.str("base_url"), withoutType(headers), query)
}

func spotIn(op *file.Operation) spot {
	var headers, query []string
	if op.Request != nil {
		for _, h := range op.Request.Headers {
			headers = append(headers, h.Name+": "+h.Value)
		}
	}
	for _, i := range op.Placed[file.InQuery] {
		if p := op.Params[i]; p.Required && !p.Hidden {
			query = append(query, "?"+p.Wire)
		}
	}
	base := ""
	if op.Target != &op.Adapter.Target {
		base = op.Target.BaseURL
	}
	return spotOf(op.Mapping.Method+" "+op.Mapping.Template, base, withoutType(headers), query)
}

// withoutType removes the header that says what the body is.
func withoutType(headers []string) []string {
	return slices.DeleteFunc(headers, func(h string) bool { return strings.HasPrefix(strings.ToLower(h), "content-type:") })
}

// places are the keys by which operations of a file and of documents are compared: near, but plain where several have the same near, and
// full where they have the same plain, too.
type places struct{ crowded map[string]crowd }

// crowd says what operations have in common.
type crowd uint8

const (
	sameNear crowd = iota + 1
	samePlain
)

// placesIn returns the places for files and documents that have these operations.
func placesIn(sets ...[]spot) places {
	p := places{map[string]crowd{}}
	for _, set := range sets {
		near, plain := map[string]string{}, map[string]string{}
		for _, s := range set {
			if full, there := near[s.near]; there && full != s.full {
				p.crowded[s.near] = max(p.crowded[s.near], sameNear)
			}
			if full, there := plain[s.plain]; there && full != s.full {
				p.crowded[s.near] = samePlain
			}
			near[s.near], plain[s.plain] = s.full, s.full
		}
	}
	return p
}

func (p places) of(s spot) string {
	switch p.crowded[s.near] {
	case sameNear:
		return s.plain
	case samePlain:
		return s.full
	}
	return s.near
}

// key returns what x-source has for an operation.
func (p places) key(op *operation) string {
	s := op.spot()
	if p.crowded[s.near] == samePlain {
		return s.full
	}
	return s.plain
}

func (p places) at(op *operation) string { return p.of(op.spot()) }

// spots returns the spots of operations.
func spots(ops []*operation) (out []spot) {
	for _, op := range ops {
		out = append(out, op.spot())
	}
	return out
}

// recorded returns what x-source says, by place.
func (o *origin) recorded(p places) map[string]recorded {
	out := make(map[string]recorded, len(o.operations))
	for full, r := range o.operations {
		out[p.of(recordedSpot(full))] = r
	}
	return out
}

func (o *origin) spots() (out []spot) {
	for full := range o.operations {
		out = append(out, recordedSpot(full))
	}
	return out
}

// known returns a function that reports whether an operation may be one of those that were imported: what its server adds to its path is
// not known yet.
func (o *origin) known() func(*rawOperation) bool {
	known := map[string]bool{}
	for full, r := range o.operations {
		known[r.name] = true
		method, path, _ := strings.Cut(recordedSpot(full).near, " ")
		for i := range len(path) {
			if path[i] == '/' {
				known[method+" "+path[i:]] = true
			}
		}
	}
	return func(op *rawOperation) bool {
		path, _, _ := strings.Cut(op.path, "#")
		path, _, _ = strings.Cut(path, "?")
		return known[op.named()] || known[spotOf(op.method+" "+path, "", nil, nil).near]
	}
}

// disables reports whether the document has an operation at a place, and x-mcp leaves it out.
func (d *Document) disables(at spot) bool {
	return slices.ContainsFunc(d.ops, func(op *rawOperation) bool {
		return op.advice.disabled && spotOf(op.method+" "+op.path, "", nil, nil).near == at.near
	})
}
