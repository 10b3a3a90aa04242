package openapi

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"gopkg.in/yaml.v3"

	"github.com/dragoman-proxy/dragoman/adapterrt/clean"
	"github.com/dragoman-proxy/dragoman/adapterrt/file"
)

// Import is the outcome of [Document.Import].
type Import struct {
	Files    []*File
	Findings []Finding
	Selected int            // operations that were selected
	Dropped  int            // those of them that are in no file
	Left     map[string]int // what an adapter has no place for, or is not wanted, such as webhooks
}

// File is an adapter file.
type File struct {
	Name       string // of the adapter
	Operations int
	Drafts     []Draft
	Findings   []Finding
	Adapter    *file.Adapter // the file as it was read

	split  Split  // by which it was made
	url    string // base_url
	front  string
	source string // the block x-source, in front
	intro  string
	ops    []*operation
}

// FileName returns the name of the file.
func (f *File) FileName() string { return f.Name + "-adapter.md" }

// maxOperations is the largest number of operations of an adapter file.
const maxOperations = 2000

// TooLarge returns an error if the file has more bytes than adapter files may have.
func (f *File) TooLarge(size int) error {
	if size <= file.MaxFile {
		return nil
	}
	return fmt.Errorf("%s would have %d bytes, the limit is %d: %s", f.FileName(), size, file.MaxFile, f.smaller())
}

// smaller says how an import has fewer operations in a file.
func (f *File) smaller() string {
	ways := "--split tag or --split path"
	switch f.split {
	case SplitTag:
		ways = "--split path"
	case SplitPath:
		ways = "--split tag"
	}
	return "select fewer operations with --include, or use " + ways
}

// Import makes adapter files of the selected operations.
func (d *Document) Import(o Options) (*Import, error) {
	opt := &o
	if len(d.ops) == 0 {
		return nil, &Error{d.sources[0].name, 0, "the document has no operations"}
	}
	opt.Name = cmp.Or(opt.Name, AdapterName(d.Title))
	if !file.IsAdapterName(opt.Name) {
		return nil, fmt.Errorf("--name %s: Adapter name is not valid: want %s", quoted(opt.Name), file.AdapterNameRule)
	}
	ops, err := d.selected(opt.Include, opt.Exclude)
	if err != nil {
		return nil, err
	}
	if len(ops) == 0 {
		return nil, fmt.Errorf("no operation of %d is selected", len(d.ops))
	}
	left := maps.Clone(d.left)
	if !opt.Deprecated {
		ops = slices.DeleteFunc(ops, func(op *rawOperation) bool {
			if !op.deprecated || opt.has != nil && opt.has(op) {
				return false
			}
			left["deprecated operation"]++
			return true
		})
		switch {
		case len(ops) == 0 && opt.again:
			return nil, errors.New("all operations that were selected are deprecated, and the file has none of them")
		case len(ops) == 0:
			return nil, errors.New("all operations that are selected are deprecated: import them with --deprecated")
		}
	}
	ops = slices.DeleteFunc(ops, func(op *rawOperation) bool {
		if op.advice.disabled {
			left["operation, which x-mcp leaves out"]++
		}
		return op.advice.disabled
	})
	if len(ops) == 0 {
		return nil, errors.New("x-mcp in the document leaves out all operations that are selected")
	}
	if opt.Most > 0 && len(ops) > opt.Most {
		return nil, tooMany(ops, opt.Most)
	}
	t, err := d.target(opt, ops)
	if err != nil {
		return nil, err
	}
	d.steps = 0
	t.choices = opt.choices()
	out := &Import{Selected: len(ops) + len(d.lost), Dropped: len(d.lost), Findings: slices.Clone(d.lost), Left: left}
	for _, g := range groups(opt, ops) {
		if opt.group != "" && g.key != opt.group {
			continue
		}
		at := *t
		if at.auth, err = d.chosenAuth(opt, g.ops); err != nil { // what the operations of this file need
			return nil, err
		}
		if opt.Auth == "" {
			at.auth = d.withParameters(opt.Name, g.ops, at.auth, opt.mine)
		}
		at.sign()
		f, dropped, err := d.file(opt, g, &at)
		if err != nil {
			return nil, err
		}
		out.Dropped += dropped
		out.Findings = append(out.Findings, f.Findings...)
		if f.Operations > 0 {
			out.Files = append(out.Files, f)
		}
	}
	if d.limit != nil {
		return nil, d.limit
	}
	if err := t.choices.check(); err != nil {
		return nil, err
	}
	whole := func(x Finding) Finding { // about the whole document: the first file reports it
		if len(out.Files) > 0 {
			x.File = out.Files[0].FileName()
			out.Files[0].Findings = append(out.Files[0].Findings, x)
		}
		return x
	}
	for i, x := range d.lost {
		out.Findings[i] = whole(x)
	}
	for _, note := range d.notes {
		out.Findings = append(out.Findings, whole(Finding{Place: d.sources[0].name, Class: Weaker, What: note}))
	}
	return out, nil
}

// maxRounds is how often a file is made again without the operations that the format refuses.
const maxRounds = 6

// file makes one file. What the reader of adapter files refuses is dropped, with its reason.
func (d *Document) file(opt *Options, g *group, t *target) (f *File, dropped int, err error) {
	var ops []*operation
	var gone []Finding
	there, outlines := map[string]bool{}, map[*node]*definition{}
	for _, raw := range g.ops {
		op := d.mapOperation(raw, t)
		if at := op.spot().full; !op.dropped && there[at] {
			op.dropped = true
			op.findings = []Finding{{Place: d.place(raw.node), Class: Dropped, What: "another operation makes the same request"}}
		} else {
			there[at] = true
		}
		if op.dropped {
			dropped++
			for _, x := range op.findings {
				x.Operation = raw.method + " " + short(raw.path)
				gone = append(gone, x)
			}
			continue
		}
		if opt.Fields {
			d.propose(op)
		}
		if !opt.NoOutputSchema {
			d.outline(op, outlines)
		}
		ops = append(ops, op)
	}
	nameAll(ops, g.tag)
	tagAll(ops)
	nameTools(ops, opt.Names)
	for round := 0; ; round++ {
		f = d.write(opt, g, t, ops)
		if f.crowded() {
			if left := withoutOutlines(ops); left > 0 {
				f = d.write(opt, g, t, ops)
				gone = append(gone, d.tooLarge(left))
			}
		}
		if len(ops) == 0 {
			f.Findings = append(f.Findings, gone...)
			return f, dropped, nil
		}
		if f.Operations > maxOperations {
			return nil, 0, fmt.Errorf("%s would have %d operations, the limit is %d: %s", f.FileName(), f.Operations, maxOperations, f.smaller())
		}
		if err := f.TooLarge(len(f.front)); err != nil {
			return nil, 0, err
		}
		a, doc, problems := file.ParseDecoded("", []byte(f.front), &file.Options{InsecureHosts: opt.InsecureHosts})
		if a != nil {
			f.Adapter = a
			if err := f.finish(d, opt, g, t, doc, gone); err != nil {
				return nil, 0, err
			}
			if f.crowded() {
				if left := withoutOutlines(ops); left > 0 {
					gone = append(gone, d.tooLarge(left))
					continue
				}
			}
			return f, dropped, f.TooLarge(len(f.front))
		}
		bad := map[*operation]string{}
		for _, p := range problems {
			if p.Severity != file.Error {
				continue
			}
			if p.Path == "target.base_url" && strings.HasPrefix(t.url, "http://") {
				return nil, 0, fmt.Errorf("the server %s is not https: give --server %s, or allow it with --insecure-host", quoted(t.url), short("https://"+strings.TrimPrefix(t.url, "http://")))
			}
			op := f.operationAt(p.Path)
			if op == nil || round == maxRounds {
				return nil, 0, fmt.Errorf("the adapter would not be valid: %s: %s: want %s", p.Path, p.Message, p.Expected)
			}
			if err := op.misfit(p.Path, p.Message); err != nil {
				return nil, 0, err
			}
			if bad[op] == "" {
				bad[op] = p.Message
			}
		}
		if len(bad) == 0 {
			return nil, 0, errors.New("the adapter would not be valid")
		}
		ops = slices.DeleteFunc(ops, func(op *operation) bool {
			why := bad[op]
			if why != "" {
				dropped++
				gone = append(gone, Finding{Operation: op.raw.method + " " + short(op.raw.path), Place: d.place(op.raw.node), Class: Dropped, What: "the format of adapters refuses it: " + short(why)})
			}
			return why != ""
		})
	}
}

// categories are the categories of operations, in the order of files.
var categories = []string{"create", "read", "update", "delete", "execute"}

// operationAt returns the operation at a path of a problem: operations.read[3].params.id.
func (f *File) operationAt(path string) *operation {
	rest, ok := strings.CutPrefix(path, "operations.")
	category, rest, ok2 := strings.Cut(rest, "[")
	number, _, _ := strings.Cut(rest, "]")
	i, err := strconv.Atoi(number)
	if !ok || !ok2 || err != nil {
		return nil
	}
	for _, op := range f.ops {
		if op.category == category {
			if i == 0 {
				return op
			}
			i--
		}
	}
	return nil
}

// write writes the front matter.
func (d *Document) write(opt *Options, g *group, t *target, ops []*operation) *File {
	f := &File{Name: g.name, Operations: len(ops), ops: ops, url: t.url, split: opt.Split}
	y := &writer{*bytes.NewBuffer(d.page[:0])}
	y.line(0, "---")
	y.line(0, "name: %s", g.name)
	y.line(0, "type: adapter")
	y.line(0, `version: "1.0.0"`)
	y.line(0, "description: %s", quote(d.describe(g)))
	if tags := tagsOf(ops); tags != nil {
		y.line(0, "tags: [%s]", strings.Join(tags, ", "))
	}
	y.line(0, "")
	y.line(0, "target:")
	y.line(2, "base_url: %s", quote(t.url))
	if t.env != "" {
		y.line(2, "base_url_env: %s # if it is set, it replaces base_url", t.env)
	}
	y.line(2, "transport: http")
	y.line(2, "protocol: rest")
	y.line(2, "serialization: json")
	y.line(0, "")
	y.auth(t.auth)
	s := share(ops)
	if len(s.order) > 0 {
		y.line(0, "x-params:")
		for _, a := range s.order {
			y.line(2, "%s: &%s %s", a.name, a.name, a.text)
		}
		y.line(0, "")
	}
	y.line(0, "operations:")
	for _, category := range categories {
		first := true
		for _, op := range ops {
			if op.category != category {
				continue
			}
			if first {
				y.line(2, "%s:", category)
			} else {
				y.line(0, "")
			}
			first = false
			y.operation(op, s)
		}
		if !first {
			y.line(0, "")
		}
	}
	y.WriteString("---\n")
	f.front, d.page = y.String(), y.Bytes()
	f.intro = "# " + cmp.Or(d.Title, g.name)
	if g.tag != "" {
		f.intro += ": " + cell(short(g.tag))
	}
	f.Findings = slices.Clone(t.auth.findings)
	for i := range f.Findings {
		f.Findings[i].Place = d.place(d.root)
	}
	return f
}

// maxTags is the largest number of tags of a file, and mostTags of one operation.
const maxTags, mostTags = 10, 5

// tagsOf returns the tags of operations.
func tagsOf(ops []*operation) (tags []string) {
	for _, op := range ops {
		if t := clean.Text(op.raw.tag(), 60); t != "" && !slices.Contains(tags, scalar(t)) && len(tags) < maxTags {
			tags = append(tags, scalar(t))
		}
	}
	return tags
}

// tagAll gives operations their tags, by which a search can be narrowed, unless all have the same, which is then that of the file.
func tagAll(ops []*operation) {
	differ := false
	for _, op := range ops {
		for _, t := range op.raw.tags {
			if t = clean.Text(t, 60); t != "" && !slices.Contains(op.tags, t) && len(op.tags) < mostTags {
				op.tags = append(op.tags, t)
			}
		}
		differ = differ || !slices.Equal(op.tags, ops[0].tags)
	}
	if !differ && len(ops) > 0 && len(ops[0].tags) < 2 {
		for _, op := range ops {
			op.tags = nil
		}
	}
}

// describe returns the description of an adapter, of 10 to 200 characters.
func (d *Document) describe(g *group) string {
	title := cmp.Or(d.Title, g.name)
	text := d.prose(d.about, operationText)
	if !strings.HasPrefix(strings.ToLower(text), strings.ToLower(title)) {
		text = strings.TrimSuffix(title+": "+text, ": ")
	}
	if g.tag != "" {
		text = d.prose(title, 80) + ", " + d.prose(g.tag, 60)
		for _, n := range d.root.list("tags") {
			if n.str("name") == g.tag && n.str("description") != "" {
				text += ": " + d.prose(n.str("description"), 120)
			}
		}
	}
	if len(text) < 10 {
		text += " (an HTTP API)"
	}
	return cut(text, 200)
}

func (y *writer) auth(a auth) {
	y.line(0, "auth:")
	y.line(2, "type: %s", a.kind)
	for _, p := range a.members {
		y.line(2, "%s: %s", p.key, p.value)
	}
	if len(a.also) > 0 {
		y.line(2, "also:")
		for _, b := range a.also {
			y.line(4, "- %s", flowMap(append([]pair{{"type", b.kind}}, b.members...)))
		}
	}
	y.line(0, "")
}

// source writes the block that says of which document the file was made, and with which
// options.
func (d *Document) source(opt *Options, g *group, t *target, ops []*operation) string {
	y := &writer{}
	y.line(0, "# Of which document this file was made. \"adapter diff\" and \"adapter import --update\" read it.")
	y.line(0, "x-source:")
	y.line(2, "title: %s", quote(d.Title))
	y.line(2, "version: %s", quote(d.Version))
	y.line(2, "format: %s", quote(d.Format))
	y.line(2, "sha256: %s", quote(d.Digest))
	var s pairs
	if len(opt.Include) > 0 {
		s.add("include", flowList(opt.Include, quote))
	}
	if len(opt.Exclude) > 0 {
		s.add("exclude", flowList(opt.Exclude, quote))
	}
	if g.key != "" {
		s.add("split", string(opt.Split))
		s.quoted("group", g.key)
	}
	s.quoted("server", opt.Server)
	s.words("server_vars", opt.ServerVars)
	s.flag("deprecated", opt.Deprecated)
	s.flag("fields", opt.Fields)
	if len(opt.Omit) > 0 {
		s.add("omit_params", flowList(opt.Omit, quote))
	}
	s.words("set_params", opt.Set)
	s.quoted("auth", opt.Auth)
	if opt.Names != NamesSnake {
		s.text("names", string(opt.Names))
	}
	s.flag("output_schema", !opt.NoOutputSchema)
	if s != nil {
		y.line(2, "selection: %s", flowMap(s))
	}
	y.line(2, "base_url: %s", quote(t.url))
	y.line(2, "operations: # name and a hash of what was imported, by method and path")
	all := placesIn(spots(ops))
	for _, op := range ops {
		y.line(4, "%s: %s", quote(all.key(op)), op.name+" "+op.hash)
	}
	return y.String()
}

// finish makes the drafts of a file that is valid, and its findings. doc is its front matter. gone are the findings of
// operations that are not in it.
func (f *File) finish(d *Document, opt *Options, g *group, t *target, doc *yaml.Node, gone []Finding) error {
	count := 0
	front, err := (&builder{name: "the adapter file", count: &count}).tree(doc)
	if err != nil {
		return err
	}
	written := map[string]*node{}
	for _, category := range categories {
		for _, n := range front.get("operations").list(category) {
			written[n.str("name")] = n
		}
	}
	var c canonical
	for _, op := range f.ops {
		op.hash = c.hash(written[op.name])
	}
	f.source = d.source(opt, g, t, f.ops)
	f.front = strings.TrimSuffix(f.front, "---\n") + f.source + "---\n"
	f.Findings = append(f.Findings, gone...)
	for _, op := range f.ops {
		compiled := f.Adapter.Index[op.name]
		for _, x := range op.findings {
			x.Operation = op.name
			if x.Place == "" {
				x.Place = d.place(op.raw.node)
			}
			f.Findings = append(f.Findings, x)
		}
		draft, missing := d.draft(op, compiled)
		if draft == nil {
			f.Findings = append(f.Findings, Finding{Operation: op.name, Place: d.place(op.raw.node), Class: Guessed, What: "there is no example: no value was found for a required parameter", Do: "write one for " + missing})
			continue
		}
		f.Drafts = append(f.Drafts, *draft)
	}
	for i := range f.Findings {
		f.Findings[i].File = f.FileName()
	}
	return nil
}

// Front returns the file without its documentation.
func (f *File) Front() []byte { return []byte(f.front) }

// Bytes returns the file with these examples.
func (f *File) Bytes(d *Document, examples []string) []byte {
	var b strings.Builder
	b.WriteString(f.front)
	fmt.Fprintf(&b, "\n%s\n\nMade by `dragoman adapter import` of %s %s (%s), %s.\n", f.intro, cmp.Or(cell(d.Title), "a document"), cell(d.Version), d.Format, plural(f.Operations, "operation"))
	if len(f.Findings) > 0 {
		b.WriteString("\n## What did not fit\n\n" + legend)
		table(&b, f.Findings)
	}
	if len(examples) > 0 {
		b.WriteString("\n## Examples\n\n`dragoman adapter test` runs them, offline.\n")
		for _, e := range examples {
			b.WriteString("\n" + e)
		}
	}
	return []byte(b.String())
}

const legend = "dropped: the operation is not in this file. guessed: the document does not say it. weaker: this file accepts more than the\n" +
	"document, which the API then refuses, or lacks something that may be left out.\n\n"
