package openapi

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/dragoman-proxy/dragoman/adapterrt/file"
)

// Change is one difference between an adapter file and a document.
type Change struct {
	Kind      string `json:"kind"`                // gone, moved, renamed, deprecated, new, required, narrowed, widened, optional, body, answer, server
	Operation string `json:"operation,omitempty"` // its name in the file or, if it is new, in the document
	Mapping   string `json:"maps_to,omitempty"`   // METHOD /path in the document or, if it is gone, in the file
	What      string `json:"what"`
	Breaking  bool   `json:"breaking"` // calls that the file allows fail, or mean something else
}

// String returns the change on one line.
func (c Change) String() string {
	s := c.What
	if c.Operation != "" {
		s = c.Operation + " (" + c.Mapping + "): " + s
	}
	if c.Breaking {
		return "breaking  " + s
	}
	return "          " + s
}

// Diff returns what an adapter file lacks of a document, or has otherwise. If the file says
// how it was imported, operations of the document that have not changed since are left out,
// whatever a person has changed in the file. a is the file data, read.
func Diff(data []byte, a *file.Adapter, d *Document, insecure []string) ([]Change, error) {
	f, err := parseFront(data)
	if err != nil {
		return nil, err
	}
	o := f.origin()
	fresh, now, err := d.again(a, o, insecure)
	if err != nil {
		return nil, err
	}
	c := &comparison{}
	all := placesIn(spots(fresh.ops), o.spots())
	recorded := o.recorded(all)
	if o.there && o.baseURL != fresh.url && o.options.Server == "" && a.Target.BaseURL != fresh.url {
		c.add("server", true, "the server is %s, the file has %s", quoted(fresh.url), quoted(a.Target.BaseURL))
	}
	there := map[string]*operation{}
	for _, op := range fresh.ops {
		there[all.at(op)] = op
	}
	seen := map[string]bool{}
	for _, was := range a.Operations {
		if was.Builtin || was.Mapping == nil {
			continue
		}
		at := all.of(spotIn(was))
		op := there[at]
		r, known := recorded[at]
		c.operation, c.mapping = was.Name, was.Mapping.Method+" "+was.Mapping.Template
		if op == nil {
			moved := movedTo(fresh.ops, r.name, seen, recorded, all)
			switch {
			case moved != nil && known:
				seen[all.at(moved)] = true
				c.add("moved", true, "is now %s", whereNow(moved, was))
				c.compare(was, now.Index[moved.name])
			case o.there && !known: // a person has added it
			case d.disables(spotIn(was)):
				c.add("gone", true, "x-mcp in the document leaves it out")
			default:
				c.add("gone", true, "the document does not have it")
			}
			continue
		}
		seen[at] = true
		c.mapping = op.mapsTo
		if known && r.name != op.name {
			c.add("renamed", false, "the document calls it %s, and did call it %s", op.name, r.name)
		}
		if known && r.hash == op.hash {
			continue
		}
		if op.deprecated && was.Deprecated == nil {
			c.add("deprecated", false, "is deprecated")
		}
		c.compare(was, now.Index[op.name])
	}
	for _, op := range fresh.ops {
		at := all.at(op)
		if _, known := recorded[at]; known || seen[at] || !o.there || op.deprecated && !o.options.Deprecated {
			continue
		}
		c.operation, c.mapping = op.name, op.spot().plain
		c.add("new", false, "is new: %s", op.description)
	}
	return c.changes, nil
}

// whereNow returns the method and the path of an operation that was elsewhere in the file, with the server if that is another one.
func whereNow(op *operation, was *file.Operation) string {
	if op.baseURL == "" && was.Target != &was.Adapter.Target {
		return op.mapsTo + " at target.base_url"
	}
	return op.spot().plain
}

// movedTo returns the operation of the document that had the name before, if it is at a place
// where there was none.
func movedTo(ops []*operation, name string, seen map[string]bool, recorded map[string]recorded, all places) *operation {
	for _, op := range ops {
		at := all.at(op)
		if _, known := recorded[at]; op.name == name && name != "" && !known && !seen[at] {
			return op
		}
	}
	return nil
}

// again imports a document as a file was imported. It returns the operations that are in the document, those included that the file has
// and that are deprecated now, and the adapter that they make.
func (d *Document) again(a *file.Adapter, o origin, insecure []string) (*File, *file.Adapter, error) {
	opt := o.options
	opt.Name, opt.InsecureHosts, opt.again, opt.has, opt.mine = a.Name, insecure, true, o.known(), a
	if !o.there {
		opt.Server, opt.NoOutputSchema, opt.Deprecated = a.Target.BaseURL, true, true
	}
	in, err := d.Import(opt)
	if err != nil && opt.Server == "" { // the document has another server now
		opt.Server = a.Target.BaseURL
		in, err = d.Import(opt)
	}
	if err != nil {
		return nil, nil, err
	}
	if len(in.Files) == 0 {
		return nil, nil, errors.New("the document has none of the operations that were selected")
	}
	f := in.Files[0]
	return f, f.Adapter, nil
}

// comparison collects changes.
type comparison struct {
	changes            []Change
	operation, mapping string
}

// maxChanges is the largest number of changes of one comparison.
const maxChanges = 20_000

func (c *comparison) add(kind string, breaking bool, format string, args ...any) {
	if len(c.changes) < maxChanges {
		c.changes = append(c.changes, Change{kind, c.operation, c.mapping, fmt.Sprintf(format, args...), breaking})
	}
}

func visible(op *file.Operation) (out []*file.Param) {
	for _, p := range op.Params {
		if !p.Hidden && p.Place != file.InRuntime {
			out = append(out, p)
		}
	}
	return out
}

// sent returns the parameters that requests have: those that callers set, and those that the file fixes.
func sent(op *file.Operation) (out []*file.Param) {
	for _, p := range op.Params {
		if p.Place != file.InRuntime && (!p.Hidden || p.Fallback != nil) {
			out = append(out, p)
		}
	}
	return out
}

// partner returns the parameter of op that is sent as p, a parameter of the operation of, is. Path parameters are compared by
// their order.
func partner(p *file.Param, op *file.Operation, of *file.Operation) *file.Param {
	if p.Place == file.InPath {
		i, all := slices.Index(of.Mapping.Names, p.Name), op.Mapping.Names
		if i < 0 || i >= len(all) {
			return nil
		}
		for _, q := range op.Params {
			if q.Name == all[i] {
				return q
			}
		}
		return nil
	}
	for _, q := range op.Params {
		if q.Place == p.Place && q.Wire == p.Wire && q.Place != file.InRuntime {
			return q
		}
	}
	return nil
}

func (c *comparison) compare(was, now *file.Operation) {
	if now == nil {
		return
	}
	for _, p := range sent(was) {
		q := partner(p, now, was)
		if q == nil {
			i := slices.IndexFunc(now.Params, func(o *file.Param) bool {
				return o.Wire == p.Wire && o.Place != file.InRuntime && o.Place != file.InPath
			})
			if i >= 0 && partner(now.Params[i], was, now) == nil {
				c.add("narrowed", true, "parameter %s is now in the %s", p.Name, placeWord(now.Params[i].Place))
				c.definition("parameter "+p.Name, &p.Definition, &now.Params[i].Definition)
				continue
			}
			c.add("gone", true, "parameter %s is gone", p.Name)
			continue
		}
		if q.Hidden && q.Fallback == nil { // the pages of the two differ
			continue
		}
		if !p.Hidden {
			c.required("parameter "+p.Name, p.Required, q.Required)
		}
		if p.Style != q.Style && !(p.Style.Separates() && q.Style.Separates()) && (p.Place == file.InQuery || p.Place == file.InBody && p.Type != file.TypeString) {
			c.add("narrowed", true, "parameter %s is written in another style", p.Name)
		}
		c.definition("parameter "+p.Name, &p.Definition, &q.Definition)
	}
	for _, q := range visible(now) {
		if partner(q, was, now) != nil || slices.ContainsFunc(was.Params, func(o *file.Param) bool {
			return o.Wire == q.Wire && partner(o, now, was) == nil && o.Place != file.InPath
		}) {
			continue
		}
		if q.Required {
			c.add("required", true, "new required parameter %s", q.Name)
		} else {
			c.add("optional", false, "new optional parameter %s", q.Name)
		}
	}
	if was.Paging == nil && now.Paging != nil {
		c.add("optional", false, "it has pages now")
	}
	c.bodies(was, now)
}

func placeWord(p file.Place) string {
	switch p {
	case file.InQuery:
		return "query"
	case file.InHeader:
		return "headers"
	case file.InPath:
		return "path"
	}
	return "body"
}

func (c *comparison) required(what string, was, now bool) {
	switch {
	case now && !was:
		c.add("required", true, "%s is now required", what)
	case was && !now:
		c.add("optional", false, "%s is now optional", what)
	}
}

func (c *comparison) bodies(was, now *file.Operation) {
	format := func(op *file.Operation) (file.BodyFormat, bool, bool) {
		has := len(op.Placed[file.InBody]) > 0
		if op.Request == nil {
			return file.AsJSON, false, has
		}
		return op.Request.As, op.Request.Required, has
	}
	f1, r1, has1 := format(was)
	f2, r2, has2 := format(now)
	if f1 != f2 && has1 && has2 {
		c.add("body", true, "the body is %s, and was %s", f2.ContentType(), f1.ContentType())
	}
	if r2 && !r1 && !slices.ContainsFunc(was.Placed[file.InBody], func(i int) bool { return was.Params[i].Required }) {
		c.add("required", true, "a body is now required")
	}
	as := func(op *file.Operation) file.AnswerFormat {
		if op.Answer == nil {
			return file.ReadJSON
		}
		return op.Answer.As
	}
	switch {
	case as(was) == file.ReadJSON && as(now) == file.ReadAuto: // JSON is read as it was
	case as(was) != as(now):
		c.add("answer", true, "the answer is in another format")
	case now.Schema != nil && (was.Paging == nil) == (now.Paging == nil) && !reflect.DeepEqual(was.Schema, now.Schema):
		c.add("answer", false, "the answer has other members, or other types")
	}
}

// definition compares which values two definitions allow.
func (c *comparison) definition(what string, was, now *file.Definition) {
	old, new := types(was), types(now)
	lost, won := missing(old, new), missing(new, old)
	switch {
	case len(lost) > 0:
		c.add("narrowed", true, "%s is %s, and was %s", what, strings.Join(new, " or "), strings.Join(old, " or "))
		return
	case len(won) > 0:
		c.add("widened", false, "%s may also be %s", what, strings.Join(won, " or "))
	}
	c.values(what, was, now)
	c.limit(what, "minimum", bound(was.Minimum), bound(now.Minimum), 1)
	c.limit(what, "maximum", bound(was.Maximum), bound(now.Maximum), -1)
	c.limit(what, "minLength", lengthText(was.MinLength), lengthText(now.MinLength), 1)
	c.limit(what, "maxLength", lengthText(was.MaxLength), lengthText(now.MaxLength), -1)
	c.extent(what, was, now)
	pattern := func(d *file.Definition) string {
		if d.Pattern == nil {
			return ""
		}
		return d.Pattern.String()
	}
	switch p, q := pattern(was), pattern(now); {
	case p == q:
	case q == "":
		c.add("widened", false, "%s has no pattern any more", what)
	default:
		c.add("narrowed", true, "%s has the pattern %s", what, quoted(q))
	}
	if was.Format != now.Format && now.Format != "" {
		c.add("narrowed", true, "%s has the format %s", what, short(now.Format))
	}
	if was.Items != nil && now.Items != nil {
		c.definition("an element of "+what, was.Items, now.Items)
	}
	if was.Properties == nil || now.Properties == nil {
		return
	}
	for i := range *was.Properties {
		p := &(*was.Properties)[i]
		k := slices.IndexFunc(*now.Properties, func(q file.Property) bool { return q.Name == p.Name })
		at := "member " + short(p.Name) + " of " + what
		if k < 0 {
			c.add("gone", true, "%s is gone", at)
			continue
		}
		q := &(*now.Properties)[k]
		c.required(at, p.Required, q.Required)
		c.definition(at, &p.Definition, &q.Definition)
	}
	for i := range *now.Properties {
		q := &(*now.Properties)[i]
		if slices.ContainsFunc(*was.Properties, func(p file.Property) bool { return p.Name == q.Name }) {
			continue
		}
		at := "member " + short(q.Name) + " of " + what
		if q.Required {
			c.add("required", true, "new required %s", at)
		} else {
			c.add("optional", false, "new optional %s", at)
		}
	}
}

func types(d *file.Definition) []string {
	return append([]string{d.Type.String()}, d.Also.Names()...)
}

// missing returns what is in a and not in b. An integer is a number.
func missing(a, b []string) (out []string) {
	for _, t := range a {
		if !slices.Contains(b, t) && !(t == "integer" && slices.Contains(b, "number")) {
			out = append(out, t)
		}
	}
	return out
}

func (c *comparison) values(what string, was, now *file.Definition) {
	texts := func(d *file.Definition) (out []string) {
		for _, e := range d.Enum {
			out = append(out, short(string(e.Raw)))
		}
		return out
	}
	old, new := texts(was), texts(now)
	switch {
	case old == nil && new == nil:
	case old == nil:
		c.add("narrowed", true, "%s must now be one of %s", what, listed(new))
	case new == nil:
		c.add("widened", false, "%s may now have any value", what)
	default:
		if gone := missing(old, new); len(gone) > 0 {
			c.add("narrowed", true, "%s must not be %s any more", what, listed(gone))
		}
		if more := missing(new, old); len(more) > 0 {
			c.add("widened", false, "%s may now be %s", what, listed(more))
		}
	}
}

func listed(list []string) string {
	const most = 12
	if len(list) > most {
		return strings.Join(list[:most], ", ") + fmt.Sprintf(" and %d more", len(list)-most)
	}
	return strings.Join(list, ", ")
}

func bound(b *file.Bound) string {
	if b == nil {
		return ""
	}
	return string(b.Raw)
}

// limit compares a bound. sign is 1 if a greater bound allows less.
func (c *comparison) limit(what, key, was, now string, sign int) {
	if was == now {
		return
	}
	if was != "" && now != "" {
		more := file.CompareNumbers([]byte(now), []byte(was)) * sign
		if more == 0 {
			return
		}
		if more < 0 {
			c.add("widened", false, "%s: %s is %s, and was %s", what, key, now, was)
			return
		}
	}
	switch {
	case now == "":
		c.add("widened", false, "%s has no %s any more", what, key)
	case was == "":
		c.add("narrowed", true, "%s has the %s %s", what, key, now)
	default:
		c.add("narrowed", true, "%s: %s is %s, and was %s", what, key, now, was)
	}
}

// extent compares how many elements two definitions allow, and what else they say beyond bounds.
func (c *comparison) extent(what string, was, now *file.Definition) {
	c.limit(what, "minItems", countText(was.MinItems), countText(now.MinItems), 1)
	c.limit(what, "maxItems", countText(was.MaxItems), countText(now.MaxItems), -1)
	switch {
	case was.Unique && !now.Unique:
		c.add("widened", false, "%s may have equal elements", what)
	case now.Unique && !was.Unique:
		c.add("narrowed", true, "%s must not have equal elements any more", what)
	}
	switch p, q := string(was.Step), string(now.Step); {
	case p == q:
	case q == "":
		c.add("widened", false, "%s has no multipleOf any more", what)
	default:
		c.add("narrowed", true, "%s has the multipleOf %s", what, short(q))
	}
	for _, b := range [...][2]*file.Bound{{was.Minimum, now.Minimum}, {was.Maximum, now.Maximum}} {
		if b[0] == nil || b[1] == nil || b[0].Open == b[1].Open || file.CompareNumbers(b[0].Raw, b[1].Raw) != 0 {
			continue
		}
		if b[1].Open {
			c.add("narrowed", true, "%s must not be %s any more", what, b[1].Raw)
		} else {
			c.add("widened", false, "%s may now be %s", what, b[1].Raw)
		}
	}
	if was.Values != nil && now.Values != nil {
		c.definition("a further member of "+what, was.Values, now.Values)
	} else if now.Values != nil {
		c.add("narrowed", true, "further members of %s must now be %s", what, strings.Join(types(now.Values), " or "))
	}
}
