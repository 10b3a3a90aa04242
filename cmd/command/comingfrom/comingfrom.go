// Package comingfrom turns the command lines of other tools into dragoman's own.
//
// What a tool takes, and what dragoman has for it, is data: tools has one file for each tool, with a row for each flag, argument,
// variable, key, path, signal and exit code. From the same rows come docs/coming-from.md and what dragoman says of a flag that is
// another tool's. A file is parsed when it is needed: a start without it pays nothing.
package comingfrom

import (
	"cmp"
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
	return []string{"mcp-remote", "supergateway", "mcp-proxy", "mcp-proxy-py", "tbxark", "mcp-proxy-for-aws"}
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
	Strict   bool   `yaml:"strict"`   // a flag that it does not have is an error
	Usage    int    `yaml:"usage"`    // its exit code for a wrong line; 1 unless set
	Missing  int    `yaml:"missing"`  // its exit code for a server's command that cannot be started; 1 unless set
	Rows     []Row  `yaml:"rows"`
}

// A Row is one thing that a tool takes. Its flags and settings are added in the order of the rows: a later row wins.
type Row struct {
	Theirs  string            `yaml:"theirs"`  // as one writes it: --port, URL, MCP_PROXY_PORT, mcpServers.NAME.url, SIGINT, /sse
	Also    []string          `yaml:"also"`    // other spellings of a flag, and variables that stand for it: -p, MCP_PROXY_PORT
	Kind    string            `yaml:"kind"`    // flag, argument, variable, key, path, signal or exit code
	Value   string            `yaml:"value"`   // the shape of its value; "" for a switch
	Takes   string            `yaml:"takes"`   // number (at least Least), list (several words), each (one word, several times); "" for one text or a switch
	Pair    string            `yaml:"pair"`    // what stands between the two words of a value
	Least   float64           `yaml:"least"`   // of a number
	Holds   string            `yaml:"holds"`   // what each value must have in it
	Zero    string            `yaml:"zero"`    // what an empty value stands for, or the number 0
	Choices []string          `yaml:"choices"` // the values that there are, each "theirs" or "theirs=ours"
	Default string            `yaml:"default"` // theirs
	Answer  string            `yaml:"answer"`
	Ours    string            `yaml:"ours"`  // what one writes for dragoman
	Flags   []string          `yaml:"flags"` // words of dragoman's line; {} stands for the value, {ms} and {s} for a time
	Env     map[string]string `yaml:"env"`   // settings for what has no flag, with the same signs
	Only    string            `yaml:"only"`  // serve or stdio: the row is about lines with this command of dragoman alone
	Note    string            `yaml:"note"`
}

// Load returns a tool by its name, or nil if there is none. With words of its line and variables, it leaves out the rows that cannot be
// meant: to parse all takes a tenth of a start.
func Load(name string, said ...string) (*Tool, error) {
	if !slices.Contains(Names(), name) {
		return nil, nil
	}
	text, err := files.ReadFile("tools/" + name + ".yaml")
	if err != nil {
		return nil, err
	}
	const begin = "\n  - theirs: "
	head, rows, _ := strings.Cut(string(text), begin)
	spoken := folded(strings.Join(said, " "))
	for row := range strings.SplitSeq(rows, begin) {
		theirs, _, _ := strings.Cut(row, "\n")
		if len(said) == 0 || strings.Contains(row, "kind: variable") || strings.Contains(row, "kind: argument") || strings.Contains(row, "also: [-") || strings.Contains(spoken, folded(theirs)) {
			head += begin + row
		}
	}
	t := &Tool{Usage: 1, Missing: 1}
	return t, yaml.Unmarshal([]byte(head), t)
}

// folded is a text without case and the signs with which names are written in several ways.
func folded(text string) string {
	return strings.ToLower(strings.NewReplacer("-", "", "_", "").Replace(text))
}

// camel returns --some-name as --someName.
func camel(flag string) string {
	parts := strings.Split(strings.TrimLeft(flag, "-"), "-")
	for i, p := range parts[1:] {
		parts[i+1] = strings.ToUpper(p[:min(1, len(p))]) + p[min(1, len(p)):]
	}
	return "--" + strings.Join(parts, "")
}

// Row returns the row of a flag by one of its spellings; nil if there is none.
func (t *Tool) Row(theirs string) *Row {
	at := slices.IndexFunc(t.Rows, func(r Row) bool { return r.Theirs == theirs || slices.Contains(r.Also, theirs) })
	if at < 0 {
		return nil
	}
	return &t.Rows[at]
}

// answers are the words for the answers in what is shown, which are those of Row.Answer where there is none.
var answers = map[string]string{Form: "another word", Found: "no word", Ignored: "no effect"}

// shown returns the rows in the order in which they are looked for: what stands in the line, arguments first and flags by their
// names, and what stands around it.
func (t *Tool) shown() (line, around []Row) {
	for _, r := range t.Rows {
		if r.Kind == "flag" || r.Kind == "argument" {
			line = append(line, r)
		} else {
			around = append(around, r)
		}
	}
	slices.SortStableFunc(line, func(a, b Row) int {
		key := func(r Row) string {
			if r.Kind == "argument" {
				return ""
			}
			return folded(r.Theirs)
		}
		return strings.Compare(key(a), key(b))
	})
	return line, around
}

// spelt returns what a tool takes, as one writes it, in all spellings. quote goes around a flag.
func (r *Row) spelt(quote string) string {
	switch r.Kind {
	case "flag":
		all := strings.Split(r.Theirs, ", ")
		for _, other := range r.Also {
			if strings.HasPrefix(other, "-") && !slices.Contains(all, other) {
				all = append(all, other)
			}
		}
		return strings.TrimSpace(quote + strings.Join(all, quote+", "+quote) + quote + " " + r.Value)
	case "variable":
		return strings.TrimSpace("variable " + r.Theirs + " " + r.Value)
	case "argument":
		return r.Theirs + " (argument)"
	}
	return r.Kind + " " + r.Theirs
}

// Help says what the tool takes, and what dragoman has for each.
func (t *Tool) Help() string {
	b := &strings.Builder{}
	fmt.Fprintf(b, "%s %s\n\n%s\n", t.Title, t.Version, t.About)
	line, around := t.shown()
	for i, rows := range [][]Row{line, around} {
		fmt.Fprintf(b, "\n%s:\n", []string{"On its line, and dragoman's word for it", "Around its line"}[i])
		for _, r := range rows {
			ours := r.Ours
			if r.Answer == Ignored || r.Answer == Refused {
				ours = cmp.Or(answers[r.Answer], r.Answer) + ": " + r.Note
			}
			theirs := r.spelt("")
			if len(theirs) > 40 { // the other column stays where it is
				theirs += fmt.Sprintf("\n  %40s", "")
			}
			fmt.Fprintf(b, "  %-40s %s\n", theirs, ours)
		}
	}
	return b.String()
}
