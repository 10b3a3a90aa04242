package openapi

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/dragoman-proxy/dragoman/adapterrt/file"
	"github.com/dragoman-proxy/dragoman/translate/wire"
)

// Updated is the outcome of [Update].
type Updated struct {
	Data      []byte   // the file with the changes; its examples may need others
	Changed   []string // names of operations whose text changed, or that are new
	Drafts    []Draft  // for those of them that have one
	Removed   []string
	Conflicts []Conflict // if there are any, Data is nil
	Lines     []string   // what was done, one a line
}

// Conflict is a value that both a person and the document have changed.
type Conflict struct {
	Operation string // "" for the file as a whole
	Path      string // params.limit.maximum
	Line      int    // of the operation in the file
	Mine      string
	Theirs    string
}

func (c Conflict) String() string {
	at := cmp.Or(c.Path, "the operation")
	return fmt.Sprintf("%d: %s: %s: the file has %s, the document has %s", c.Line, c.Operation, at, c.Mine, c.Theirs)
}

// Update brings what has changed in a document since an import into an adapter file. What a
// person has changed in the file stays. a is the file data, read. base is the document of
// which the file was made; with it, changes within one operation are merged. It may be nil.
func Update(data []byte, a *file.Adapter, d, base *Document, insecure []string) (*Updated, error) {
	f, err := parseFront(data)
	if err != nil {
		return nil, err
	}
	o := f.origin()
	if !o.there {
		return nil, fmt.Errorf("the file has no x-source: it was not made by import, so what a person has changed cannot be known")
	}
	if base != nil && base.Digest != o.digest {
		return nil, fmt.Errorf("--base is not the document of which the file was made: its SHA-256 is %.12s…, the file has %.12s…", base.Digest, o.digest)
	}
	fresh, now, err := d.again(a, o, insecure)
	if err != nil {
		return nil, err
	}
	without := ""
	if a.Auth.Kind == file.AuthNone && a.Auth.Mutual == nil && now.Auth.Kind != file.AuthNone {
		without = "the file has no auth, and the document has: " + fresh.auth()
		fresh.Findings = append(fresh.Findings, Finding{Place: d.place(d.root), Class: Guessed, What: without, Do: "add it to the file, if the API needs it"})
	}
	m := &merge{document: d, front: f, origin: o, fresh: fresh, out: &Updated{}, added: map[string][]string{}, places: placesIn(spots(fresh.ops), o.spots())}
	if m.theirs, err = m.nodes(fresh); err != nil {
		return nil, err
	}
	if base != nil {
		old, _, err := base.again(a, o, insecure)
		if err != nil {
			return nil, fmt.Errorf("--base: %w", err)
		}
		if m.base, err = m.nodes(old); err != nil {
			return nil, err
		}
	}
	m.run()
	if len(m.out.Conflicts) > 0 {
		return m.out, nil
	}
	m.write(d)
	if without != "" && len(m.out.Lines) > 0 {
		m.out.Lines = append(m.out.Lines, "note: "+without)
	}
	return m.out, nil
}

// auth returns the block auth of a file in one line.
func (f *File) auth() string {
	_, block, _ := strings.Cut(f.front, "\nauth:\n")
	block, _, _ = strings.Cut(block, "\n\n")
	lines := strings.Split(block, "\n")
	for i := range lines {
		lines[i] = strings.TrimSpace(lines[i])
	}
	return strings.ReplaceAll(strings.Join(lines, ", "), "also:, ", "also: ")
}

// merge is a merge of one file.
type merge struct {
	document *Document
	front    *front
	origin   origin
	fresh    *File
	theirs   map[string]*entry // operations of the document now, by place
	base     map[string]*entry // operations of the document at the import; nil if it is not known
	out      *Updated
	edits    []edit
	added    map[string][]string // texts of new operations, by category
	kept     []*operation        // what x-source lists

	places  places
	byPlace map[string]*operation // of fresh
}

// edit replaces the lines from one index up to another, which is not replaced.
type edit struct {
	from, to int
	text     string
}

// nodes returns the operations of an import as a file has them, by place.
func (m *merge) nodes(f *File) (map[string]*entry, error) {
	front, err := parseFront([]byte(f.front))
	if err != nil {
		return nil, err
	}
	out := map[string]*entry{}
	for _, e := range front.operations() {
		out[m.places.of(e.spot())] = e
	}
	return out, nil
}

func (m *merge) run() {
	recorded := m.origin.recorded(m.places)
	m.byPlace = map[string]*operation{}
	byName := map[string]*operation{}
	for _, op := range m.fresh.ops {
		m.byPlace[m.places.at(op)] = op
		if _, known := recorded[m.places.at(op)]; !known {
			byName[op.name] = op // it may have moved
		}
	}
	mine := m.front.operations()
	taken := map[string]bool{}
	for _, e := range mine {
		taken[e.name], taken[e.node.str("tool_name")] = true, true
	}
	done := map[*operation]bool{}
	for _, e := range mine {
		at := m.places.of(e.spot())
		r, known := recorded[at]
		op := m.byPlace[at]
		if op == nil && known {
			op = byName[r.name]
		}
		if op != nil {
			done[op] = true
		}
		if !known {
			continue // a person has added it
		}
		switch changed := hash(e.node) != r.hash; {
		case op == nil && changed:
			m.conflict(e, "", "changes of a person", "no such operation")
		case op == nil:
			m.remove(e)
		case op.hash == r.hash:
			m.kept = append(m.kept, op)
		default:
			m.kept = append(m.kept, op)
			m.change(e, op, at, changed)
		}
	}
	for _, op := range m.fresh.ops {
		at := m.places.at(op)
		if _, known := recorded[at]; known {
			if !done[op] { // a person has removed it
				m.kept = append(m.kept, op)
			}
			continue
		}
		if done[op] || op.deprecated && !m.origin.options.Deprecated {
			continue
		}
		m.kept = append(m.kept, op)
		named := *op
		if taken[op.name] {
			named.name = op.otherName(taken)
		}
		named.name = operationName(taken, named.name)
		if taken[named.tool] {
			named.tool = ""
		}
		taken[named.tool] = true
		m.added[op.category] = append(m.added[op.category], rendered(&named))
		m.out.Changed = append(m.out.Changed, named.name)
		m.draft(op, named.name)
		m.out.Lines = append(m.out.Lines, "added "+named.name+" ("+op.spot().plain+")")
		m.elsewhere(op, named.name, "")
	}
}

// rendered returns the text of an operation without anchors.
func rendered(op *operation) string {
	y := &writer{}
	y.operation(op, &shared{})
	return y.String()
}

func (m *merge) conflict(e *entry, path, mine, theirs string) {
	m.out.Conflicts = append(m.out.Conflicts, Conflict{e.name, path, e.from + 1, mine, theirs})
}

func (m *merge) remove(e *entry) {
	to := e.to
	for to < m.front.end && strings.TrimSpace(m.front.lines[to]) == "" {
		to++
	}
	m.edits = append(m.edits, edit{e.from, to, ""})
	m.out.Removed = append(m.out.Removed, e.name)
	why := "the document does not have any more"
	if m.document.disables(e.spot()) {
		why = "x-mcp in the document leaves out"
	}
	m.out.Lines = append(m.out.Lines, "removed "+e.name+" ("+e.mapsTo+"), which "+why)
}

func (m *merge) draft(op *operation, name string) {
	for _, d := range m.fresh.Drafts {
		if d.Operation == op.name {
			d.Request = strings.Replace(d.Request, quote(op.name), quote(name), 1)
			d.Operation = name
			m.out.Drafts = append(m.out.Drafts, d)
		}
	}
}

// change brings a change of the document into an operation of the file. changed says that a
// person has changed it, too.
func (m *merge) change(e *entry, op *operation, at string, changed bool) {
	theirs := m.theirs[m.places.at(op)]
	if changed && hash(e.node) == op.hash {
		return // both have made the same change
	}
	text := ""
	if !changed && e.category == op.category {
		named := *op
		named.name = e.name
		text = rendered(&named)
	} else {
		base := m.base[at]
		if base == nil && changed {
			m.conflict(e, "", "changes of a person", "changes, too; with --base OLD-DOCUMENT they are merged")
			return
		}
		if base == nil {
			base = e
		}
		before := len(m.out.Conflicts)
		merged := m.three(e, "", base.node, e.node, theirs.node)
		if len(m.out.Conflicts) > before {
			return
		}
		if e.category != op.category {
			m.out.Lines = append(m.out.Lines, "note: "+e.name+" would now be in category "+op.category+"; it stays in "+e.category)
		}
		y := &writer{}
		y.tree(4, "- ", merged)
		text = y.String()
	}
	m.edits = append(m.edits, edit{e.from, e.to, text})
	m.out.Changed = append(m.out.Changed, e.name)
	m.draft(op, e.name)
	m.out.Lines = append(m.out.Lines, "changed "+e.name+" ("+op.spot().plain+")")
	m.elsewhere(op, e.name, e.node.str("base_url"))
}

// elsewhere says that the credential now goes to another host, which the document has chosen.
func (m *merge) elsewhere(op *operation, name, before string) {
	if op.elsewhere && op.baseURL != before {
		m.out.Lines = append(m.out.Lines, "note: "+name+" is now sent to "+short(op.baseURL)+", and so is the credential: check it")
	}
}

// three merges two changes of a value. Maps are merged member by member, everything else as a
// whole. name stays as the file has it.
func (m *merge) three(e *entry, path string, base, mine, theirs *node) *node {
	switch {
	case same(mine, theirs) || same(base, theirs):
		return mine
	case same(base, mine):
		return theirs
	case !mine.is(wire.Object) || !theirs.is(wire.Object):
		m.conflict(e, path, shown(mine), shown(theirs))
		return mine
	}
	out := &node{kind: wire.Object}
	keys := union(mine.keys, theirs.keys)
	for _, key := range keys {
		at := key
		if path != "" {
			at = path + "." + key
		}
		v := mine.get(key)
		if path != "" || key != "name" {
			v = m.three(e, at, base.get(key), mine.get(key), theirs.get(key))
		}
		if v != nil {
			out.keys, out.kids = append(out.keys, key), append(out.kids, v)
		}
	}
	return out
}

func same(a, b *node) bool { return a == nil && b == nil || a.equal(b) }

func shown(n *node) string {
	if n == nil {
		return "nothing"
	}
	return short(string(n.JSON(nil)))
}

// tree writes a value as YAML: small ones on one line.
func (y *writer) tree(indent int, lead string, n *node) {
	pad := strings.Repeat(" ", indent)
	for i, key := range n.keys {
		start := pad + strings.Repeat(" ", len(lead))
		if i == 0 {
			start = pad + lead
		}
		v := n.kids[i]
		flow := flowOf(v)
		if v.kind != wire.Object || len(v.keys) == 0 || key != "params" && key != "properties" && len(start)+len(key)+len(flow) < lineWidth {
			y.WriteString(start + scalar(key) + ": " + flow + "\n")
			continue
		}
		y.WriteString(start + scalar(key) + ":\n")
		y.tree(indent+len(lead)+2, "", v)
	}
}

// write makes the new text of the file.
func (m *merge) write(d *Document) {
	f := m.front
	moved := false
	server := f.root.get("target").get("base_url")
	if old := m.origin.baseURL; old != "" && m.fresh.url != old && server.is(wire.String) {
		if server.text == old {
			moved = true
			line := int(server.line) - 1
			m.edits = append(m.edits, edit{line, line + 1, strings.Replace(f.lines[line], old, m.fresh.url, 1)})
			m.out.Lines = append(m.out.Lines, "changed target.base_url to "+m.fresh.url)
		} else if server.text != m.fresh.url {
			m.out.Lines = append(m.out.Lines, "note: the document's server is now "+m.fresh.url+"; the file keeps "+short(server.text))
		}
	}
	m.emptyCategories()
	m.newOperations()
	slices.SortStableFunc(m.kept, func(a, b *operation) int { // in the order of the document
		return slices.Index(m.fresh.ops, a) - slices.Index(m.fresh.ops, b)
	})
	opt := m.origin.options
	opt.Name = m.fresh.Name
	g := &group{name: opt.Name, key: opt.group}
	source := d.source(&opt, g, &target{url: m.fresh.url}, m.kept)
	if i := f.topLevel("x-source"); i >= 0 {
		to := f.end
		for _, key := range f.root.keys {
			if k := f.topLevel(key); k > i && k < to {
				to = k
			}
		}
		for i > 1 && strings.HasPrefix(f.lines[i-1], "# Of which document") {
			i--
		}
		m.edits = append(m.edits, edit{i, to, source})
	}
	slices.SortStableFunc(m.edits, func(a, b edit) int { return a.from - b.from })
	var b strings.Builder
	at := 0
	for _, e := range m.edits {
		b.WriteString(strings.Join(f.lines[at:e.from], "") + e.text)
		at = e.to
	}
	b.WriteString(strings.Join(f.lines[at:], ""))
	text := m.documentation(b.String())
	if moved {
		text = sentTo(text, m.origin.baseURL, m.fresh.url)
	}
	m.out.Data = []byte(text)
}

// sentTo returns the text of a file whose examples are sent to another base URL.
func sentTo(text, old, now string) string {
	var b strings.Builder
	for line := range strings.Lines(text) {
		method, url, _ := strings.Cut(line, " ")
		if rest, ok := strings.CutPrefix(url, old); ok && verbs[method] != nil && strings.ContainsAny(rest[:min(len(rest), 1)], "/?\r\n") {
			line = method + " " + now + rest
		}
		b.WriteString(line)
	}
	return b.String()
}

// documentation replaces the list of what did not fit, if the file still has it.
func (m *merge) documentation(text string) string {
	const heading = "## What did not fit\n"
	head, rest, found := strings.Cut(text, "\n"+heading)
	if !found {
		return text
	}
	tail := ""
	if i := strings.Index(rest, "\n## "); i >= 0 {
		tail = rest[i:]
	}
	var b strings.Builder
	b.WriteString(head + "\n" + heading + "\n" + legend)
	table(&b, m.named(m.fresh.Findings))
	return b.String() + tail
}

// named returns findings with the names that the operations have in the file. Those of
// operations that are not in the file are left out.
func (m *merge) named(findings []Finding) (out []Finding) {
	names := map[string]string{}
	for _, e := range m.front.operations() {
		if op := m.byPlace[m.places.of(e.spot())]; op != nil && !slices.Contains(m.out.Removed, e.name) {
			names[op.name] = e.name
		}
	}
	for _, op := range m.fresh.ops {
		if slices.Contains(m.out.Changed, op.name) && names[op.name] == "" {
			names[op.name] = op.name
		}
	}
	for _, f := range findings {
		if f.Class != Dropped && f.Operation != "" {
			if f.Operation = names[f.Operation]; f.Operation == "" {
				continue
			}
		}
		out = append(out, f)
	}
	return out
}

// emptyCategories removes the categories of which all operations are removed.
func (m *merge) emptyCategories() {
	mine := m.front.operations()
	for _, category := range categories {
		left, from := len(m.added[category]), -1
		for _, e := range mine {
			if e.category == category && from < 0 {
				from = e.from
			}
			if e.category == category && !slices.Contains(m.out.Removed, e.name) {
				left++
			}
		}
		for i := range m.edits {
			if e := &m.edits[i]; left == 0 && e.from == from && e.text == "" {
				e.from = m.front.lineOf(category+":", from)
			}
		}
	}
}

// newOperations puts the new operations behind the others of their category.
func (m *merge) newOperations() {
	mine := m.front.operations()
	for _, category := range categories {
		texts := m.added[category]
		if len(texts) == 0 {
			continue
		}
		lead := ""
		i := -1
		for k, e := range mine {
			if e.category == category {
				i = k
			}
		}
		if i < 0 {
			lead = "\n  " + category + ":\n"
			for k, e := range mine { // the operation that comes last in the file
				if i < 0 || e.to > mine[i].to {
					i = k
				}
			}
		} else {
			lead = "\n"
		}
		at := m.front.topLevel("operations") + 1
		if i >= 0 {
			at = mine[i].to
		}
		for _, e := range m.edits {
			if e.text == "" && e.from <= at && at < e.to {
				at = e.to
			}
		}
		m.edits = append(m.edits, edit{at, at, lead + strings.Join(texts, "\n")})
	}
}
