package openapi

import (
	"bytes"
	"errors"
	"fmt"
	"net/url"
	"path"
	"strconv"
	"strings"

	"github.com/dragoman-proxy/dragoman/translate/wire"
)

// source is one of the files of a document.
type source struct {
	name string // as messages show it
	path string // relative to the folder of the first file, with slashes, or a URL
	root *node
}

// Load returns the file at a path, which is relative to the folder of a document's first file
// and has no "..", or at an https URL. The files that a document refers to are read with it.
type Load func(path string) ([]byte, error)

// MaxFiles is the largest number of files of a document, unless a caller of [ReadMost] wants another.
const MaxFiles = 2000

// maxSources is the largest number of files that may be asked for, maxHops of references that
// lead to one value.
const maxSources, maxHops = 50_000, 32

// parse adds a file to the document.
func (d *Document) parse(name, at string, data []byte) (*source, error) {
	if len(d.sources) >= d.most {
		return nil, d.exceeded(&Error{name, 0, fmt.Sprintf("the document has more than %d files: allow more with --max-files", d.most)})
	}
	b := &builder{name: name, file: uint16(len(d.sources)), count: &d.count}
	if len(data) > MaxDocument {
		return nil, d.exceeded(b.fail(0, fmt.Sprintf("larger than %d MiB", MaxDocument>>20)))
	}
	data, odd := decoded(data)
	if odd > 0 {
		b.notes = append(b.notes, fmt.Sprintf("%s:%d: the document is not UTF-8 here: such bytes are read as Latin-1 (Windows-1252)", name, odd))
	}
	read := b.parseYAML
	if t := bytes.TrimLeft(data, " \t\r\n"); len(t) > 0 && t[0] == '{' {
		read = b.parseJSON
	}
	root, err := read(data)
	if err != nil {
		if b.exceeded {
			_ = d.exceeded(err)
		}
		return nil, err
	}
	d.notes = append(d.notes, b.notes...)
	s := &source{name: name, path: at, root: root}
	d.sources = append(d.sources, s)
	return s, nil
}

// place returns where a value is, for messages.
func (d *Document) place(n *node) string {
	if n == nil || n.line == 0 {
		return d.sources[0].name
	}
	return d.sources[n.file].name + ":" + strconv.Itoa(int(n.line))
}

// exceeded notes that a limit of documents is reached. What is read of the document is then not all that it says, and
// neither [ReadMost] nor [Document.Import] succeeds.
func (d *Document) exceeded(err error) error {
	if d.limit == nil {
		d.limit = err
	}
	return err
}

// follow returns n, or the value that it refers to by $ref. It returns nil and a reason if
// there is none.
func (d *Document) follow(n *node) (*node, error) {
	for range maxHops {
		ref := n.get("$ref")
		if !ref.is(wire.String) {
			return n, nil
		}
		to, err := d.pointed(n, ref.text)
		if err != nil {
			return nil, err
		}
		n = to
	}
	return nil, errors.New("$ref leads to itself")
}

// resolved is follow. The error names the reference.
func (d *Document) resolved(n *node) (*node, error) {
	to, err := d.follow(n)
	if err != nil {
		return nil, unread(n, err)
	}
	return to, nil
}

// unread says which reference leads nowhere, and why.
func unread(n *node, err error) error { return fmt.Errorf("$ref %s: %w", quoted(n.str("$ref")), err) }

// whole is resolved for a value whose reference may have members beside it, which come first.
func (d *Document) whole(n *node) (*node, error) {
	to, err := d.resolved(n)
	if err != nil || to == n || len(n.keys) == 1 || !to.is(wire.Object) {
		return to, err
	}
	out := &node{kind: wire.Object, file: n.file, line: n.line}
	for i, key := range n.keys {
		if key != "$ref" {
			out.keys, out.kids = append(out.keys, key), append(out.kids, n.kids[i])
		}
	}
	there := setOf(out.keys, itself)
	for i, key := range to.keys {
		if !there[key] {
			out.keys, out.kids = append(out.keys, key), append(out.kids, to.kids[i])
		}
	}
	return out, nil
}

// pointed returns the value that a reference in the file of n names:
// https://spec.openapis.org/oas/v3.1.0#reference-object
func (d *Document) pointed(n *node, ref string) (*node, error) {
	key := refKey{n.file, ref}
	if t, ok := d.targets[key]; ok {
		return t.node, t.err
	}
	d.targets[key] = refTarget{nil, errors.New("$ref leads to itself")} // while it is looked up
	t, err := d.lookup(n, ref)
	d.targets[key] = refTarget{t, err}
	return t, err
}

type refKey struct {
	file uint16
	ref  string
}

type refTarget struct {
	node *node
	err  error
}

func (d *Document) lookup(n *node, ref string) (*node, error) {
	where, fragment, _ := strings.Cut(ref, "#")
	s := d.sources[n.file]
	if where != "" {
		var err error
		if s, err = d.other(s, where); err != nil {
			return nil, err
		}
	}
	if fragment == "" {
		return s.root, nil
	}
	if fragment[0] != '/' {
		return nil, errors.New("only JSON pointers are supported behind #")
	}
	pointer, err := url.PathUnescape(fragment[1:])
	if err != nil {
		return nil, errors.New("not a JSON pointer")
	}
	at := s.root
	for _, step := range strings.Split(pointer, "/") {
		step = strings.ReplaceAll(strings.ReplaceAll(step, "~1", "/"), "~0", "~")
		if at.get(step) == nil && at.get("$ref").is(wire.String) { // components: {$ref: components.yaml}
			if at, err = d.follow(at); err != nil {
				return nil, err
			}
		}
		next := at.get(step)
		if i, err := strconv.Atoi(step); err == nil && at.is(wire.Array) && i >= 0 && i < len(at.kids) {
			next = at.kids[i]
		}
		if next == nil {
			return nil, fmt.Errorf("there is no %s", quoted(step))
		}
		at = next
	}
	return at, nil
}

func isURL(s string) bool { return strings.HasPrefix(s, "https://") || strings.HasPrefix(s, "http://") }

// other returns the file at a relative path or URL, as the file s names it.
func (d *Document) other(s *source, where string) (*source, error) {
	u, err := url.Parse(where)
	if err != nil {
		return nil, errors.New("not a reference")
	}
	at := ""
	switch {
	case u.Scheme == "https" && u.Host != "" && u.User == nil:
		at = u.String()
	case u.Scheme == "http" && u.Host != "" && strings.HasPrefix(s.path, "http://"+u.Host+"/") && u.User == nil: // of this machine, as the document
		at = u.String()
	case u.Scheme != "" || u.Host != "":
		return nil, errors.New("only files below the document's folder and https URLs can be referred to")
	case isURL(s.path):
		base, err := url.Parse(s.path)
		if err != nil {
			return nil, errors.New("not a reference")
		}
		at = base.ResolveReference(u).String()
	default:
		if at, err = url.PathUnescape(where); err != nil || strings.ContainsAny(at, "\\:") || strings.HasPrefix(at, "/") {
			return nil, errors.New("not the relative path of a file")
		}
		at = path.Join(path.Dir(s.path), at)
		if at == ".." || strings.HasPrefix(at, "../") {
			return nil, errors.New("the file is outside of the document's folder")
		}
	}
	for _, o := range d.sources {
		if o.path == at {
			return o, nil
		}
	}
	if d.load == nil {
		return nil, errors.New("the document comes from standard input, so it cannot refer to other files")
	}
	if err := d.failed[at]; err != nil {
		return nil, err
	}
	data, err := d.load(at)
	if err == nil {
		s, err = d.parse(short(at), at, data)
	}
	if err != nil {
		d.failed[at] = err
		return nil, err
	}
	return s, nil
}

// circular reports whether what n says leads back to n.
func (d *Document) circular(n *node) bool {
	if d.circles == nil {
		d.circles = &circles{follow: d.pointed, order: map[*node]int{}, low: map[*node]int{}, open: map[*node]bool{}, inside: map[*node]bool{}}
	}
	c := d.circles
	if c.order[n] == 0 {
		c.visit(n, 0)
	}
	return c.inside[n]
}
