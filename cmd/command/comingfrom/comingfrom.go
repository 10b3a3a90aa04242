// Package comingfrom turns the command lines of other tools into dragoman's own.
//
// What a tool takes, and what dragoman has for it, is data: tools has one file for each tool, with a row for each flag, argument,
// variable, key, path and signal. From the same rows come docs/coming-from.md and what dragoman says of a flag that is another tool's.
// A file is parsed when it is asked for: a start that needs none pays nothing.
package comingfrom

import (
	"bytes"
	"embed"
	"fmt"
	"slices"
	"strings"

	"gopkg.in/yaml.v3"
)

//go:embed tools/*.yaml
var files embed.FS

// Names are the tools, in the order in which they are shown.
func Names() []string {
	return []string{"mcp-remote", "supergateway", "mcp-proxy"}
}

// The answers of dragoman to what another tool takes.
const (
	Same    = "same"      // the same word does the same
	Form    = "form"      // another word does the same
	Found   = "found out" // needs no word: dragoman finds it out, or does it always
	Ignored = "ignored"   // has no effect, and changes nothing that the user gets
	Refused = "refused"   // without it the user would get something else
)

// A Tool is a program whose command lines dragoman runs.
type Tool struct {
	Name     string `yaml:"tool"`     // the word behind "dragoman as"
	Title    string `yaml:"title"`    // its name
	Package  string `yaml:"package"`  // where the registry has it
	Registry string `yaml:"registry"` // npm, PyPI or Go
	Version  string `yaml:"version"`  // whose options the rows are
	About    string `yaml:"about"`    // what it is used for, and dragoman's usual line in its place
	Words    string `yaml:"words"`    // how it reads its words: a name of dialects
	Prefix   string `yaml:"prefix"`   // of variables that stand for its flags: MCP_PROXY_
	Usage    int    `yaml:"usage"`    // its exit code for a wrong line; 0 stands for 1
	Missing  int    `yaml:"missing"`  // its exit code for a server's command that cannot be started; 0 stands for 1
	Rows     []Row  `yaml:"rows"`
}

// A Row is one thing that a tool takes.
type Row struct {
	Theirs  string   `yaml:"theirs"`  // as one writes it: --port, URL, MCP_PROXY_PORT, mcpServers.NAME.url, SIGINT, /sse
	Also    []string `yaml:"also"`    // other spellings of a flag: -p
	Kind    string   `yaml:"kind"`    // flag, argument, variable, key, path or signal
	Value   string   `yaml:"value"`   // the shape of its value; "" for a switch
	Takes   string   `yaml:"takes"`   // number (at least Least), list (several words), off (a switch that is on unless --no-x); "" for one text or a switch
	Least   float64  `yaml:"least"`   // of a number
	Zero    string   `yaml:"zero"`    // what an empty value stands for, or the number 0
	Choices []string `yaml:"choices"` // the values that there are, each "theirs" or "theirs=ours"
	Default string   `yaml:"default"` // theirs
	Answer  string   `yaml:"answer"`
	Ours    string   `yaml:"ours"` // what one writes for dragoman
	// Flags are words of dragoman's line, and Env settings for what has no flag. {} stands for the value, {ms} and {s} for a
	// time in milliseconds or seconds.
	Flags  []string          `yaml:"flags"`
	Env    map[string]string `yaml:"env"`
	Secret bool              `yaml:"secret"` // the value is a secret, and not shown
	Only   string            `yaml:"only"`   // serve or stdio: has no effect in a line of the other, as in the tool itself
	Note   string            `yaml:"note"`
}

// Load returns a tool by its name, or nil if there is none.
func Load(name string) (*Tool, error) {
	if !slices.Contains(Names(), name) {
		return nil, nil
	}
	text, err := files.ReadFile("tools/" + name + ".yaml")
	if err != nil {
		return nil, err
	}
	t := &Tool{Usage: 1, Missing: 1}
	from := yaml.NewDecoder(bytes.NewReader(text))
	from.KnownFields(true)
	if err := from.Decode(t); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return t, nil
}

// row returns the row of a flag by one of its spellings; nil if there is none.
func (t *Tool) row(theirs string) *Row {
	for i := range t.Rows {
		if r := &t.Rows[i]; r.Theirs == theirs || slices.Contains(r.Also, theirs) {
			return r
		}
	}
	return nil
}

// isSwitch reports whether a flag takes no value.
func (r *Row) isSwitch() bool { return r.Value == "" || r.Takes == "off" }

// choice returns what dragoman has for a value of a row with Choices; false if it is none of them.
func (r *Row) choice(value string) (ours string, ok bool) {
	for _, c := range r.Choices {
		theirs, ours, mapped := strings.Cut(c, "=")
		if theirs == value {
			if !mapped {
				ours = theirs
			}
			return ours, true
		}
	}
	return "", false
}

// AsksHelp reports whether a word of a tool's line asks for help.
func (t *Tool) AsksHelp(word string) bool {
	r := t.row(word)
	return r != nil && r.Theirs == "--help"
}

// Help says what the tool takes, and what dragoman has for each.
func (t *Tool) Help() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s %s: %s\n\n", t.Title, t.Version, t.About)
	for _, r := range t.Rows {
		fmt.Fprintf(&b, "  %-40s %s\n", strings.TrimSpace(r.Theirs+" "+r.shape()), r.meaning())
	}
	return b.String()
}

// shape is the value as one writes it; "" for a switch.
func (r *Row) shape() string {
	if r.isSwitch() || r.Kind == "argument" {
		return ""
	}
	return r.Value
}

// meaning is what dragoman has for a row, in a few words.
func (r *Row) meaning() string {
	switch {
	case r.Answer == Same:
		return "the same"
	case r.Answer == Refused || r.Answer == Ignored:
		return r.Answer + ": " + r.Note
	}
	return r.Ours
}
