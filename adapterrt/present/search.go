package present

import (
	"cmp"
	"slices"
	"strconv"
	"strings"

	"github.com/dragoman-proxy/dragoman/adapterrt/clean"
	"github.com/dragoman-proxy/dragoman/adapterrt/failure"
	"github.com/dragoman-proxy/dragoman/adapterrt/file"
	"github.com/dragoman-proxy/dragoman/adapterrt/find"
	"github.com/dragoman-proxy/dragoman/adapterrt/guard"
	"github.com/dragoman-proxy/dragoman/adapterrt/near"
	"github.com/dragoman-proxy/dragoman/translate/wire"
)

// defaultHits is how many operations a search returns by default, and MostHits how many at most.
// maxDescribed is the largest number of operations that one call describes, and maxQuery of
// characters of a query.
const defaultHits, MostHits, maxDescribed, maxQuery = 8, 20, 10, 500

// SearchJSON returns the entry of tools/list for a tool of search mode.
func (k *Catalogue) SearchJSON(adapter string, t Tool) []byte {
	names := make([]string, len(searchTools))
	for i := range names {
		names[i] = k.How.SearchTool(adapter, Tool(i))
	}
	many := len(k.Adapters) > 1
	text := func(description string) []byte {
		o := wire.Members(nil).Str("type", "string")
		if description != "" {
			o = o.Str("description", description)
		}
		return o.End()
	}
	props := wire.Members(nil)
	var required []string
	var description string
	h := hints{readOnly: true, idempotent: true}
	switch t {
	case SearchOperations:
		description = "Find operations of " + k.about() + " by what they do: name(parameters) – what it does."
		props = props.Raw("query", text("What to do, in a few words")).
			Raw("limit", []byte(`{"type":"integer","minimum":1,"maximum":`+strconv.Itoa(MostHits)+`,"default":`+strconv.Itoa(defaultHits)+`}`))
		if many {
			props = props.Raw("adapter", text(""))
		}
		props = props.Raw("category", []byte(`{"type":"string","enum":["create","read","update","delete","execute"]}`)).Raw("tag", text(""))
		required = []string{"query"}
	case DescribeOperations:
		description = "All parameters of operations, where " + names[SearchOperations] + " does not say enough."
		props = props.Raw("operations", []byte(`{"type":"array","items":{"type":"string"},"maxItems":`+strconv.Itoa(maxDescribed)+`}`))
		required = []string{"operations"}
	default:
		description = "Call an operation that only reads."
		if t == CallWrite {
			description = "Call any operation; may change or delete data."
			h = hints{destructive: true}
		}
		props = props.Raw("operation", text("Name from "+names[SearchOperations])).Raw("params", []byte(`{"type":"object"}`)).
			Raw("operations", []byte(`{"type":"array","items":{"type":"object"},"description":"Several {operation, params} instead"}`))
	}
	schema := wire.Members(nil).Str("type", "object").Raw("properties", props.End())
	if required != nil {
		schema = schema.Strs("required", required)
	}
	return wire.Members(nil).Str("name", names[t]).Str("description", description).
		Raw("inputSchema", schema.Bool("additionalProperties", false).End()).Raw("annotations", h.annotations()).End()
}

// maxAbout is the largest number of bytes of the names of adapters in a description.
const maxAbout = 150

// about names the adapters, with the numbers of their operations if they are few.
func (k *Catalogue) about() string {
	var list []string
	size := 0
	for _, s := range k.Adapters {
		name := s.adapter.Name
		if len(k.Adapters) <= fewAdapters {
			name += " (" + strconv.Itoa(len(s.operations)) + ")"
		}
		if size += len(name) + 2; size > maxAbout {
			break
		}
		list = append(list, name)
	}
	switch left := len(k.Adapters) - len(list); {
	case len(k.Adapters) == 0:
		return "APIs"
	case len(list) == 0:
		return strconv.Itoa(left) + " APIs"
	case left > 0:
		return strings.Join(list, ", ") + " and " + strconv.Itoa(left) + " more APIs"
	}
	return strings.Join(list, ", ")
}

// work makes the index. It runs once, at the first search.
func (f *searched) work(k *Catalogue) {
	f.at = map[item]int{}
	var docs []find.Doc
	for _, s := range k.Adapters {
		for _, op := range s.operations {
			d := find.Doc{Name: op.Name, Category: find.Category(op.Category), Group: s.adapter.Name, Summary: op.Description, Params: op.Names(), Aliases: op.Aliases}
			if op.GraphQL == nil {
				d.Path = op.Mapping.Template
			}
			i := item{s, op}
			f.at[i] = len(docs)
			docs, f.items = append(docs, d), append(f.items, i)
		}
	}
	f.index = find.New(docs)
}

// Search returns the operations that fit q.Match best, a line for each. The other fields of q
// that are used are First and the filters.
func (k *Catalogue) Search(q *Question) ([]byte, *failure.Failure) {
	k.indexed.Do(func() { k.found.work(k) })
	filter := Question{Adapter: q.Adapter, Category: q.Category, Tag: q.Tag}
	items, f := k.chosen(&filter)
	if f != nil {
		return nil, f
	}
	items = slices.DeleteFunc(items, func(i item) bool { return i.s == nil })
	allowed := make([]bool, len(k.found.items))
	for _, i := range items {
		allowed[k.found.at[i]] = true
	}
	hits := items
	query := clean.FirstRunes(q.Match, maxQuery)
	if strings.TrimSpace(query) != "" {
		hits = nil
		for _, h := range k.found.index.Search(query, func(doc int) bool { return allowed[doc] }) {
			hits = append(hits, k.found.items[h.Doc])
		}
		hits = k.namedFirst(query, hits)
	}
	if len(hits) == 0 {
		return k.noHit(query, items), nil
	}
	limit := cmp.Or(q.First, defaultHits)
	var out []byte
	for _, i := range hits[:min(limit, len(hits))] {
		out = append(k.appendSignature(out, i), '\n')
	}
	if left := len(hits) - limit; left > 0 {
		out = append(out, strconv.Itoa(left)+" more, which fit less. Other words, a larger limit or a filter may help.\n"...)
	}
	return out[:len(out)-1], nil
}

// namedFirst moves to the front the operations whose name is the query.
func (k *Catalogue) namedFirst(query string, hits []item) []item {
	name := near.Fold(strings.TrimSpace(query))
	is := func(i item) int {
		if n := near.Fold(i.op.Name); n == name || near.Fold(i.s.adapter.Name)+"_"+n == name {
			return 0
		}
		return 1
	}
	slices.SortStableFunc(hits, func(a, b item) int { return is(a) - is(b) })
	return hits
}

// noHit returns what is said if nothing fits: the tags, and names that are similar to the query.
func (k *Catalogue) noHit(query string, items []item) []byte {
	text := "Nothing found."
	counts := map[string]int{}
	var tags, names []string
	for _, i := range items {
		names = append(names, i.op.Name)
		for _, t := range i.op.Tags {
			if counts[t] == 0 {
				tags = append(tags, t)
			}
			counts[t]++
		}
	}
	slices.SortStableFunc(tags, func(a, b string) int { return counts[b] - counts[a] })
	for n, t := range tags[:min(len(tags), maxKnown)] {
		if n == 0 {
			text += " Tags, with the number of operations: "
		} else {
			text += ", "
		}
		text += t + " (" + strconv.Itoa(counts[t]) + ")"
	}
	if len(tags) > 0 {
		text += "."
	}
	if close := nearest(query, names); len(close) > 0 {
		text += " The most similar names: " + strings.Join(k.Callable(close), ", ") + "."
	}
	return []byte(text)
}

// nearest returns the three names that are most similar to query.
func nearest(query string, names []string) []string {
	query = near.Fold(clean.FirstRunes(query, 100))
	distance := map[string]int{}
	for _, n := range names[:min(len(names), maxSought)] {
		distance[n] = near.Distance(query, n, 200)
	}
	names = slices.Compact(slices.Sorted(slices.Values(names[:min(len(names), maxSought)])))
	slices.SortStableFunc(names, func(a, b string) int { return distance[a] - distance[b] })
	return names[:min(len(names), maxMeant)]
}

// maxSignature is the largest number of bytes of the parameters in a signature, if none of them
// is required. Those that do not fit are left out.
const maxSignature = 240

// appendSignature appends the line for one hit. It is enough to call most operations.
func (k *Catalogue) appendSignature(dst []byte, i item) []byte {
	if len(k.Adapters) > 1 {
		dst = append(append(dst, i.s.adapter.Name...), '.')
	}
	dst = append(append(dst, i.op.Name...), '(')
	start, left := len(dst), false
	for _, required := range [...]bool{true, false} {
		for _, p := range i.op.Params {
			if p.Hidden || p.Required != required {
				continue
			}
			word := p.Name + ": " + typeWord(&p.Definition)
			if !required {
				word = p.Name + "?: " + typeWord(&p.Definition)
				if p.Place == file.InRuntime { // the same in all operations that have it
					if word = p.Name + "?"; p.Name == "preset" {
						continue // its value also fits fields
					}
				}
				if len(dst)-start+len(word) > maxSignature {
					left = true
					continue
				}
			}
			if len(dst) > start {
				dst = append(dst, ", "...)
			}
			dst = append(dst, word...)
		}
	}
	if left {
		dst = append(dst, ", …"...)
	}
	dst = append(dst, ')')
	if i.op.Description != "" {
		dst = append(append(dst, " – "...), shortened(i.op.Description, maxDiscreteDescription)...)
	}
	switch v := i.s.verdict(i.op); {
	case v == guard.Deny:
		return append(dst, " [not allowed]"...)
	case v == guard.Confirm:
		return append(dst, " [write, a person must confirm]"...)
	case i.op.Category == file.Read:
		return append(dst, " [read]"...)
	}
	return append(dst, " [write]"...)
}

// maxChoices is the largest number of bytes of the values in a signature.
const maxChoices = 80

// typeWord returns the type of a parameter as a signature has it: string, integer[], or the
// values that are allowed.
func typeWord(d *file.Definition) string {
	if len(d.Enum) > 0 {
		var values []string
		size := 0
		for _, e := range d.Enum {
			values = append(values, e.Text)
			size += len(e.Text) + 1
		}
		if size <= maxChoices {
			return strings.Join(values, "|")
		}
	}
	if d.Type == file.TypeArray {
		if d.Items == nil {
			return "array"
		}
		if inner := typeWord(d.Items); !strings.Contains(inner, "|") {
			return inner + "[]"
		} else {
			return "(" + inner + ")[]"
		}
	}
	return d.Type.String()
}

// Describe returns the details of the operations called names, as JSON.
func (k *Catalogue) Describe(names []string) ([]byte, *failure.Failure) {
	switch {
	case len(names) == 0:
		return nil, failure.InvalidValue("operations", "must hold names of operations")
	case len(names) > maxDescribed:
		return nil, failure.InvalidValue("operations", "must hold 1–"+strconv.Itoa(maxDescribed)+" names")
	}
	out := []byte(`{"operations":[`)
	for _, name := range names {
		out = wire.Comma(out)
		s, op, f := k.lookup(name)
		switch {
		case f != nil:
			return nil, f
		case op == nil:
			missing := k.nothingLike(clean.FirstRunes(clean.Text(name, 200), 200))
			out = append(out, missing...)
		case s == nil:
			out = append(out, wire.Member(k.How.builtinDetail.Answer(), "operation")...)
		default:
			d := k.describe(s, op, k.How.brief)
			out = append(out, wire.Member(d.Answer(), "operation")...)
		}
	}
	return append(out, "]}"...), nil
}

// nothingLike returns what Describe says of a name that does not exist.
func (k *Catalogue) nothingLike(name string) []byte {
	o := wire.Members(nil).Str("name", name).Raw("found", []byte("false"))
	var among []string
	for _, s := range k.Adapters {
		for _, op := range s.operations {
			if len(among) < maxSought {
				among = append(among, op.Name)
			}
		}
	}
	if _, after, ok := strings.Cut(name, "."); ok {
		name = after
	}
	if meant := near.Names(name, among, maxMeant); len(meant) > 0 {
		o = o.Strs("did_you_mean", k.Callable(meant))
	}
	return o.End()
}
