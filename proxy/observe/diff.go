package observe

import (
	"strconv"
	"strings"

	"github.com/tidwall/gjson"

	"github.com/dragoman-proxy/dragoman/translate/wire"
)

// difference is one place where two JSON texts differ. before and after are paths as in a [translate.Change]; one of them
// is empty for a value that only one text has.
type difference struct{ before, after string }

// Bounds of a comparison.
const (
	maxDifferences = 200
	maxDeep        = 64
)

// comparison collects the differences of two texts.
type comparison struct {
	list []difference
	more int
}

// differences returns where two messages differ. Elements of a list are found again by their names, if they have any, and
// otherwise by their positions.
func differences(before, after []byte) *comparison {
	var c comparison
	c.compare(gjson.Parse(wire.View(before)), gjson.Parse(wire.View(after)), "", "", 0)
	return &c
}

func (c *comparison) add(before, after string) {
	if len(c.list) == maxDifferences {
		c.more++
		return
	}
	c.list = append(c.list, difference{before, after})
}

func (c *comparison) compare(a, b gjson.Result, atA, atB string, depth int) {
	switch {
	case a.Raw == b.Raw:
	case depth == maxDeep:
		c.add(atA, atB)
	case a.IsObject() && b.IsObject():
		c.members(a, b, atA, atB, depth)
	case a.IsArray() && b.IsArray():
		c.elements(a.Array(), b.Array(), atA, atB, depth)
	case !wire.Equal([]byte(a.Raw), []byte(b.Raw)):
		c.add(atA, atB)
	}
}

func (c *comparison) members(a, b gjson.Result, atA, atB string, depth int) {
	in := map[string]gjson.Result{}
	b.ForEach(func(key, v gjson.Result) bool {
		in[key.String()] = v
		return true
	})
	a.ForEach(func(key, v gjson.Result) bool {
		name := key.String()
		if other, ok := in[name]; ok {
			c.compare(v, other, member(atA, key), member(atB, key), depth+1)
			delete(in, name)
		} else {
			c.add(member(atA, key), "")
		}
		return true
	})
	b.ForEach(func(key, _ gjson.Result) bool {
		if _, added := in[key.String()]; added {
			c.add("", member(atB, key))
			delete(in, key.String())
		}
		return true
	})
}

// member appends a member's name to a path, in the form of [wire.Node.AppendPath].
func member(path string, key gjson.Result) string {
	name := key.String()
	if strings.ContainsFunc(name, func(r rune) bool {
		return r != '_' && r != '-' && r != '$' && (r < '0' || r > '9') && (r < 'A' || r > 'Z') && (r < 'a' || r > 'z')
	}) || name == "" {
		return path + "[" + key.Raw + "]"
	}
	if path == "" {
		return name
	}
	return path + "." + name
}

func element(path string, i int) string { return path + "[" + strconv.Itoa(i) + "]" }

func (c *comparison) elements(a, b []gjson.Result, atA, atB string, depth int) {
	inA, named := namesOf(a)
	inB, ok := namesOf(b)
	if !named || !ok {
		for i := range max(len(a), len(b)) {
			switch {
			case i >= len(b):
				c.add(element(atA, i), "")
			case i >= len(a):
				c.add("", element(atB, i))
			default:
				c.compare(a[i], b[i], element(atA, i), element(atB, i), depth+1)
			}
		}
		return
	}
	for i, v := range a {
		if j, there := inB[nameOf(v)]; there {
			c.compare(v, b[j], element(atA, i), element(atB, j), depth+1)
		} else {
			c.add(element(atA, i), "")
		}
	}
	for j, v := range b {
		if _, there := inA[nameOf(v)]; !there {
			c.add("", element(atB, j))
		}
	}
}

// nameOf returns what an element of a list is called, or "".
func nameOf(v gjson.Result) string {
	for _, key := range []string{"name", "uri", "uriTemplate", "id"} {
		if n := v.Get(key); n.Exists() && !n.IsObject() && !n.IsArray() {
			return key + "=" + n.Raw
		}
	}
	return ""
}

// namesOf returns the positions of the elements by their names, and false if some have none or the same one.
func namesOf(list []gjson.Result) (map[string]int, bool) {
	at := make(map[string]int, len(list))
	for i, v := range list {
		if !v.IsObject() {
			return nil, false
		}
		name := nameOf(v)
		if _, twice := at[name]; twice || name == "" {
			return nil, false
		}
		at[name] = i
	}
	return at, true
}
