package file

import (
	"strings"

	"github.com/dragoman-proxy/dragoman/adapterrt/clean"
	"github.com/dragoman-proxy/dragoman/translate/wire"
)

// MaxPaths is the largest number of paths in a selection, and maxPathDepth of names in a path.
const MaxPaths, maxPathDepth = 200, 32

// Selection is a tree of member names.
type Selection struct {
	Whole    bool // the value is selected as a whole
	Children map[string]*Selection
}

// NewSelection compiles dotted paths. It returns nil if there are too many paths or one of
// them is not valid.
func NewSelection(paths []string) *Selection {
	root := &Selection{}
	if len(paths) > MaxPaths {
		return nil
	}
	for _, p := range paths {
		names := strings.Split(p, ".")
		if len(p) > 1000 || len(names) > maxPathDepth {
			return nil
		}
		at := root
		for _, n := range names {
			if n == "" {
				return nil
			}
			if at.Whole {
				continue // a shorter path selects the whole value already
			}
			if at.Children[n] == nil {
				if at.Children == nil {
					at.Children = map[string]*Selection{}
				}
				at.Children[n] = &Selection{}
			}
			at = at.Children[n]
		}
		at.Whole, at.Children = true, nil
	}
	return root
}

// project appends to dst the part of raw that s selects. For a list, it selects from each
// element. Fields that raw does not have are left out.
func (s *Selection) project(dst, raw []byte) []byte {
	if s.Whole {
		return append(dst, raw...)
	}
	switch wire.KindOf(raw) {
	case wire.Array:
		dst = append(dst, '[')
		wire.Each(raw, func(_, v []byte) bool {
			dst = wire.Comma(dst)
			dst = s.project(dst, v)
			return true
		})
		return append(dst, ']')
	case wire.Object:
		dst = append(dst, '{')
		wire.Each(raw, func(name, v []byte) bool {
			if child := s.Children[string(name)]; child != nil {
				dst = wire.AppendName(dst, name)
				dst = child.project(dst, v)
			}
			return true
		})
		return append(dst, '}')
	}
	return append(dst, raw...)
}

// ProjectAt appends raw to dst, with s applied to the value at path. The rest does not change.
func (s *Selection) ProjectAt(dst, raw []byte, path []string) []byte {
	if len(path) == 0 {
		return s.project(dst, raw)
	}
	if wire.KindOf(raw) != wire.Object {
		return append(dst, raw...)
	}
	dst = append(dst, '{')
	wire.Each(raw, func(name, v []byte) bool {
		dst = wire.AppendName(dst, name)
		if string(name) == path[0] {
			dst = s.ProjectAt(dst, v, path[1:])
		} else {
			dst = append(dst, v...)
		}
		return true
	})
	return append(dst, '}')
}

// presets reads the named selections of a file.
func (c *checker) presets(root *node) map[string][]string {
	n := c.get(root, "", "presets", wire.Object)
	if n == nil {
		return nil
	}
	presets := map[string][]string{}
	for _, f := range n.fields {
		paths := c.strs(n, "presets", f.key)
		if NewSelection(paths) == nil {
			c.wrong(SchemaInvalidValue, "presets."+clean.FirstRunes(f.key, 60), "preset is not valid", "list of dotted paths", f.val, 0)
		}
		presets[f.key] = paths
	}
	return presets
}
