package present

import (
	"bytes"

	"github.com/dragoman-proxy/dragoman/adapterrt/clean"
	"github.com/dragoman-proxy/dragoman/adapterrt/failure"
	"github.com/dragoman-proxy/dragoman/adapterrt/file"
	"github.com/dragoman-proxy/dragoman/adapterrt/near"
	"github.com/dragoman-proxy/dragoman/translate/wire"
)

// work computes the answers. It runs once, at the first request.
func (k *Catalogue) work() {
	k.operations, _ = k.list(&Question{})

	types := []byte(`{"types":[`)
	for _, t := range file.ProtocolTypes() {
		types = append((&generatedType{DeclaredType: t}).appendItem(types), ',')
	}
	for _, s := range k.Adapters {
		for i := range s.generated {
			types = append(s.generated[i].appendItem(types), ',')
		}
	}
	types[len(types)-1] = ']'
	k.types = bytes.Clone(append(types, '}'))

	info := []byte(`{"adapters":[`)
	for _, s := range k.Adapters {
		info = wire.Comma(info)
		info = appendInfo(info, s)
	}
	k.info = append(info, "]}"...)
	if len(k.Adapters) == 1 {
		k.info = append(appendInfo([]byte(`{"adapter":`), k.Adapters[0]), '}')
	}
}

func appendInfo(dst []byte, s *Adapter) []byte {
	a := s.adapter
	o := wire.Members(nil).Str("name", a.Name).Str("version", a.Version).Str("description", a.Description).
		Int("operation_count", int64(len(s.operations)))
	for _, m := range [...]struct{ key, val string }{{"author", a.Author}, {"created", a.Created}, {"modified", a.Modified}} {
		if m.val != "" {
			o = o.Str(m.key, clean.Text(m.val, 200))
		}
	}
	for _, m := range [...]struct {
		key string
		val []string
	}{{"tags", a.Tags}, {"triggers", a.Triggers}} {
		if len(m.val) > 0 {
			tidy := make([]string, len(m.val))
			for i, s := range m.val {
				tidy[i] = clean.Text(s, 100)
			}
			o = o.Strs(m.key, tidy)
		}
	}
	if a.Trust.About != nil {
		o = o.Raw("trust", a.Trust.About)
	}
	return append(dst, o.End()...)
}

// Answer returns the answer to q as JSON, from what NewAdapter computed. It calls quotas for
// the JSON of quota_status, because that changes with every call.
func (k *Catalogue) Answer(q *Question, quotas func() []byte) ([]byte, *failure.Failure) {
	k.answered.Do(k.work)
	if key := q.listing(); key != "" && (q.Query != "operations" || q.Named) {
		return nil, failure.InvalidValue(key, "is for a list of operations")
	}
	switch q.Query {
	case "operations":
		if q.Named {
			return k.operation(q.Name)
		}
		if q.listing() == "" {
			return k.operations, nil
		}
		return k.list(q)
	case "types":
		if q.Named {
			return k.typ(q.Name)
		}
		return k.types, nil
	case "quota_status":
		return quotas(), nil
	case "adapter_info":
		if !q.Named {
			return k.info, nil
		}
		for _, s := range k.Adapters {
			if s.adapter.Name == q.Name {
				return append(appendInfo([]byte(`{"adapter":`), s), '}'), nil
			}
		}
		return []byte(`{"adapter":null}`), nil
	}
	query := clean.FirstRunes(clean.Text(q.Query, 60), 60)
	return nil, &failure.Failure{Code: failure.InvalidQueryType, Message: "Unknown introspection query: '" + query + "'. Use 'operations' or 'types'."}
}

func (k *Catalogue) operation(name string) ([]byte, *failure.Failure) {
	s, op, f := k.lookup(name)
	switch {
	case f != nil:
		return nil, f
	case op == nil:
		_, name = k.qualified(name)
		return k.nothing("operation", name, func(s *Adapter, add func(string)) {
			for _, op := range s.operations {
				add(op.Name)
			}
		}), nil
	case s == nil:
		return k.How.builtinDetail.Answer(), nil
	case len(k.Adapters) == 1 && k.ToolOf == nil:
		d := s.Detail(op)
		return d.Answer(), nil
	}
	d := k.describe(s, op, k.How)
	return d.Answer(), nil
}

// nothing returns the answer for a name that does not exist. It contains similar names,
// except in the closed form.
func (k *Catalogue) nothing(what, name string, names func(s *Adapter, add func(string))) []byte {
	o := wire.Members(nil).Raw(what, []byte("null"))
	if k.How.Introspection == Strict {
		return o.End()
	}
	var among []string
	for _, s := range k.Adapters {
		if len(among) < maxSought {
			names(s, func(n string) { among = append(among, n) })
		}
	}
	if meant := near.Names(clean.FirstRunes(name, 200), among, maxMeant); len(meant) > 0 {
		o = o.Strs("did_you_mean", k.Callable(meant))
	}
	return o.End()
}

func (k *Catalogue) typ(name string) ([]byte, *failure.Failure) {
	adapters, name := k.qualified(name)
	for _, t := range file.ProtocolTypes() {
		if t.Name == name {
			return (&generatedType{DeclaredType: t}).appendDetail(nil), nil
		}
	}
	var found []*Adapter
	var answer []byte
	for _, s := range adapters {
		for i := range s.generated {
			if t := &s.generated[i]; t.Name == name {
				found, answer = append(found, s), t.appendDetail(nil)
				break
			}
		}
	}
	switch len(found) {
	case 0:
		return k.nothing("type", name, func(s *Adapter, add func(string)) {
			for i := range s.generated {
				add(s.generated[i].Name)
			}
		}), nil
	case 1:
		return answer, nil
	}
	return nil, failure.Ambiguous(name, adapterNames(found))
}

// maxMeant is the largest number of names in did_you_mean, and maxSought of names that are compared
// for it.
const maxMeant, maxSought = 3, 5000
