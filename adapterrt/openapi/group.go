package openapi

import (
	"cmp"
	"fmt"
	"strings"
)

// TooMany says that more operations are selected than are wanted.
type TooMany struct {
	Selected, Most int
	Groups         []Group
}

// Group are operations with the same tag or, if there are no tags, the same beginning of the
// path.
type Group struct {
	Selector string // that selects them
	Count    int
}

func (e *TooMany) Error() string {
	return fmt.Sprintf("%d operations are selected, more than --max-ops %d", e.Selected, e.Most)
}

// tooMany makes the error with the groups of the operations.
func tooMany(ops []*rawOperation, most int) error {
	e := &TooMany{Selected: len(ops), Most: most}
	at := map[string]int{}
	for _, op := range ops {
		s := "path:/**/" + op.area() + "/**"
		if i := strings.Index(op.path, "/"+op.area()); i >= 0 {
			s = "path:" + op.path[:i] + "/" + op.area() + "**"
		}
		if t := op.tag(); t != "" {
			s = "tag:" + t
		}
		i, ok := at[s]
		if !ok {
			i = len(e.Groups)
			at[s] = i
			e.Groups = append(e.Groups, Group{Selector: s})
		}
		e.Groups[i].Count++
	}
	return e
}

// group are the operations of one file.
type group struct {
	name string
	key  string // of the group, if there are several; a tag, or a part of paths
	tag  string // of all of them; "" for several
	ops  []*rawOperation
}

func groups(opt *Options, ops []*rawOperation) []*group {
	if opt.Split == "" || opt.Split == SplitNone {
		return []*group{{name: opt.Name, ops: ops, tag: oneTag(ops)}}
	}
	var out []*group
	at := map[string]*group{}
	taken := map[string]bool{}
	for _, op := range ops {
		key := op.group(opt.Split)
		g := at[key]
		if g == nil {
			name := opt.Name + "-" + cmp.Or(slug(key), "other")
			if len(name) > 60 {
				name = strings.Trim(name[:60], "-")
			}
			g = &group{name: unique(taken, name, "-"), key: key}
			if opt.Split == SplitTag {
				g.tag = op.tag()
			}
			at[key] = g
			out = append(out, g)
		}
		g.ops = append(g.ops, op)
	}
	return out
}

// group returns what the operations of one file have in common.
func (op *rawOperation) group(s Split) string {
	if t := op.tag(); s == SplitTag && t != "" {
		return t
	}
	return op.area()
}

// oneTag returns the tag of the operations, or "" if they have several.
func oneTag(ops []*rawOperation) string {
	for _, op := range ops {
		if op.tag() != ops[0].tag() {
			return ""
		}
	}
	return ops[0].tag()
}
