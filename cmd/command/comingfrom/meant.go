package comingfrom

import (
	"path"
	"slices"
	"strings"
	"sync"

	"github.com/dragoman-proxy/dragoman/proxy/config/setting"
)

// all are the tools with all of their rows, read when they are first asked for.
var all = sync.OnceValue(func() (tools []*Tool) {
	for _, name := range Names() {
		if t, err := Load(name); err == nil {
			tools = append(tools, t)
		}
	}
	return tools
})

// unknown says that a word is no option of the tool, and what may be meant.
func (t *Tool) unknown(word, why string) string {
	return "is no option of " + t.Title + " " + t.Version + why + t.meant(word)
}

// ofDragoman are flags of dragoman that its log advises, and the variables that go before the line of a tool.
var ofDragoman = map[string]string{"--allow-host": "DRAGOMAN_ALLOWED_HOSTS", "--listen": "DRAGOMAN_LISTEN", "--ca": "DRAGOMAN_UPSTREAM_CA_FILE"}

// meant says what to write in the place of a word that is no option of the tool: one that is like it, or the tool of the same name
// that has it; "" if that is not known.
func (t *Tool) meant(word string) string {
	if variable := ofDragoman[word]; variable != "" {
		return "; dragoman has it: " + variable + "=VALUE before the line"
	}
	var own []string
	for _, other := range all() {
		switch {
		case path.Base(other.Package) != path.Base(t.Package):
		case other.Name != t.Name && other.Row(word) != nil:
			return "; " + other.Title + " has it: dragoman as " + other.Name + " …"
		case other.Name == t.Name:
			for _, r := range other.Rows {
				if r.Kind == "flag" {
					own = append(own, r.Theirs)
				}
			}
		}
	}
	near := setting.Nearest(word, own)
	if near == "" {
		near = setting.Nearest(camel(word), own)
	}
	if near != "" && len(strings.TrimLeft(word, "-")) > 2 {
		return "; did you mean " + near + "?"
	}
	return ""
}

// Program says what to write in the place of a further program of a tool's package; "" if no package has it.
func Program(name string) string {
	for _, t := range all() {
		for _, r := range t.Rows {
			if r.Kind == "program" && slices.Contains(strings.Fields(r.Theirs), name) {
				return r.Ours
			}
		}
	}
	return ""
}
