package openapi

import (
	"path"
	"slices"
	"strings"

	"github.com/dragoman-proxy/dragoman/translate/wire"
)

// maxBases is how many schemas are looked at for what one extends.
const maxBases = 200

// maxLines is of how many schemas the family keeps what they extend.
const maxLines = 20_000

// family returns the family of the document, which is read when it is first needed: when a schema has a discriminator.
func (d *Document) family() *family {
	if d.kin == nil {
		d.kin = &family{map[*node]string{}, map[*node][]*node{}, map[*node][]*node{}, map[*node][]*node{}}
		for i := 0; i < len(d.sources); i++ { // more may come
			root := d.sources[i].root
			for _, all := range [...]*node{root.get("components").get("schemas"), root.get("definitions")} {
				if all, _ = d.whole(all); all.is(wire.Object) {
					for k, name := range all.keys {
						d.kin.add(d, name, all.kids[k])
					}
				}
			}
		}
	}
	return d.kin
}

// add adds the schema of that name.
func (f *family) add(d *Document, name string, n *node) {
	to := d.near(n)
	if to == nil || f.names[to] != "" {
		return
	}
	f.names[to] = name
	for _, part := range to.list("allOf") {
		if !part.get("$ref").is(wire.String) || len(f.parents[to]) == maxBases {
			continue
		}
		if base := d.near(part); base != nil && base != to && !slices.Contains(f.parents[to], base) {
			f.parents[to] = append(f.parents[to], base)
			f.children[base] = append(f.children[base], to)
		}
	}
}

// near is follow for a schema that may be in a file that no operation refers to: it reads no file at a URL, and no file beyond
// the limit.
func (d *Document) near(n *node) *node {
	where, _, _ := strings.Cut(n.str("$ref"), "#")
	if _, known := d.targets[refKey{n.file, n.str("$ref")}]; !known && where != "" {
		if strings.Contains(where, ":") || isURL(d.sources[n.file].path) || len(d.sources) >= d.most/2 {
			return nil
		}
	}
	to, err := d.follow(n)
	if err != nil || !to.is(wire.Object) {
		return nil
	}
	return to
}

// nameOf returns the name of a schema, or of the file that it is.
func (d *Document) nameOf(n *node) string {
	if name := d.family().names[n]; name != "" {
		return name
	}
	if s := d.sources[n.file]; s.root == n {
		name := path.Base(s.path)
		return strings.TrimSuffix(name, path.Ext(name))
	}
	return ""
}

// below returns the schemas that extend n, and those that extend them, at most as many as most says.
func (f *family) below(n *node, most int) (out []*node) {
	seen := map[*node]bool{n: true}
	for next := []*node{n}; len(next) > 0 && len(out) < most; next = next[1:] {
		for _, c := range f.children[next[0]] {
			if !seen[c] && len(out) < most {
				seen[c] = true
				out, next = append(out, c), append(next, c)
			}
		}
	}
	return out
}

// above returns n and the schemas that it extends, directly or not, at most maxBases.
func (f *family) above(n *node) []*node {
	if line := f.lines[n]; line != nil {
		return line
	}
	line := []*node{n}
	for i := 0; i < len(line); i++ {
		for _, p := range f.parents[line[i]] {
			if len(line) < maxBases && !slices.Contains(line, p) {
				line = append(line, p)
			}
		}
	}
	if len(line) > 2 && len(f.lines) < maxLines { // else it is found as fast again
		f.lines[n] = line
	}
	return line
}
