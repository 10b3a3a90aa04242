package file

import (
	"cmp"
	"strings"

	"github.com/dragoman-proxy/dragoman/translate/wire"
)

// Key returns the name of the parameter in the schemas of tools.
func (p *Param) Key() string { return cmp.Or(p.key, p.Name) }

// setKeys sets the keys of the operation's parameters.
func (op *Operation) setKeys() {
	names := make([]string, len(op.Params))
	for i, p := range op.Params {
		names[i] = p.Name
		op.renamed = op.renamed || p.renamed
	}
	for i, key := range keys(names) {
		op.Params[i].key = key
		op.renamed = true
	}
}

// Own returns the arguments of a call as the file describes them. Members of the body that are written beside each other are put
// into the body, if it is one parameter. They have the file's names of parameters and members in place of the keys that schemas have
// for them; of a parameter that has such a key, the API's name is replaced, too. args is a valid JSON text; Own returns it
// itself if there is nothing to replace. If a value is given under two names, twice is one of them.
func (op *Operation) Own(args []byte) (own []byte, twice string) {
	if wire.KindOf(wire.Trim(args)) != wire.Object {
		return args, ""
	}
	args = op.inBody(args)
	if !op.renamed {
		return args, ""
	}
	r := &renaming{op: op}
	own = r.object(make([]byte, 0, len(args)+256), wire.Trim(args), op.own)
	return own, r.twice
}

// inBody returns arguments with those that are no parameters, but members of the object that is the whole body, in that object.
// It returns args itself if there are none, if others are neither, or if there is a body already.
func (op *Operation) inBody(args []byte) []byte {
	if op.Request == nil || op.Request.Whole < 0 || op.Params[op.Request.Whole].Properties == nil {
		return args
	}
	body := op.Params[op.Request.Whole]
	isParam := func(name string) (bool, bool) {
		_, d := op.own(name)
		return d != nil || strings.HasPrefix(name, "_"), d == &body.Definition
	}
	some, known := false, true
	wire.Each(wire.Trim(args), func(member, v []byte) bool {
		param, whole := isParam(string(member))
		if known = !whole; known && !param {
			some = true
			_, d := body.own(string(member))
			known = d != nil
		}
		return known
	})
	if !some || !known {
		return args
	}
	beside, inside := wire.Members(nil), wire.Members(nil)
	wire.Each(wire.Trim(args), func(member, v []byte) bool {
		if param, _ := isParam(string(member)); param {
			beside = beside.Raw(string(member), v)
		} else {
			inside = inside.Raw(string(member), v)
		}
		return true
	})
	return beside.Raw(body.Name, inside.End()).End()
}

// renaming is the state of Own.
type renaming struct {
	op    *Operation
	twice string
}

// own returns the name and the definition of the parameter that an argument means, or nil.
func (op *Operation) own(name string) (string, *Definition) {
	i := -1
	for k, p := range op.Params {
		switch {
		case p.Hidden:
		case name == p.Name:
			return name, &p.Definition
		case name == p.key, p.key != "" && name == p.Wire && i < 0:
			i = k
		}
	}
	if i < 0 {
		return name, nil
	}
	return op.Params[i].Name, &op.Params[i].Definition
}

// object appends an object, whose members own knows.
func (r *renaming) object(dst, raw []byte, own func(string) (string, *Definition)) []byte {
	said := map[string]string{} // by own names that a member has in place of others
	dst = append(dst, '{')
	wire.Each(raw, func(member, v []byte) bool {
		name, d := own(string(member))
		if before, ok := said[name]; ok && before != string(member) {
			r.twice = name
		}
		said[name] = string(member)
		dst = wire.AppendName(dst, name)
		if d == nil && name == "input" && r.op != nil && r.op.Category == Update && wire.KindOf(v) == wire.Object {
			dst = (&renaming{}).object(dst, v, own) // parameters may be in there, too
			return true
		}
		dst = r.value(dst, v, d)
		return true
	})
	return append(dst, '}')
}

// value appends a value that d describes.
func (r *renaming) value(dst, raw []byte, d *Definition) []byte {
	kind := wire.KindOf(raw)
	switch {
	case d == nil || !d.renamed:
	case kind == wire.Object && d.Properties != nil:
		inner := renaming{}
		dst = inner.object(dst, raw, d.own)
		r.twice = cmp.Or(r.twice, inner.twice)
		return dst
	case kind == wire.Array && d.Items != nil:
		dst = append(dst, '[')
		wire.Each(raw, func(_, v []byte) bool {
			dst = wire.Comma(dst)
			dst = r.value(dst, v, d.Items)
			return true
		})
		return append(dst, ']')
	}
	return append(dst, raw...)
}
