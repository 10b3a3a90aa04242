package adapterrt

import (
	"context"
	"encoding/json"
	"net/url"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/dragoman-proxy/dragoman/adapterrt/failure"
	"github.com/dragoman-proxy/dragoman/adapterrt/present"
)

// novice stands for a model that has only the tools of search mode, and never tries twice. It
// searches with the words of a task, takes the first hit whose required parameters it can fill
// with values of the task, and calls it.
type novice struct {
	rt       *Runtime
	t        *testing.T
	quoted   []string          // values in quotes
	before   map[string]string // the word in front of each of them
	numbers  []string
	owner    []string // of owner/repo
	people   []string // @name
	dotted   []string // README.md, v1...v2
	words    []string // of the task, without values
	original string
}

var (
	inQuotes  = regexp.MustCompile(`(\S+) "([^"]*)"`)
	ownerRepo = regexp.MustCompile(`\b([\w-]+)/([\w-]+)\b`)
	person    = regexp.MustCompile(`@([\w-]+)`)
	withDots  = regexp.MustCompile(`\b[\w-]+\.[\w.-]*\w`)
	digits    = regexp.MustCompile(`\b\d+\b`)
	hitLine   = regexp.MustCompile(`^(\S+?)\((.*?)\)(?: – (.*))? \[(.*)\]$`)
)

// read takes the values out of a task.
func (n *novice) read(task string) {
	n.quoted, n.numbers, n.owner, n.people, n.dotted = nil, nil, nil, nil, nil
	take := func(re *regexp.Regexp, use func(m []string)) {
		for _, m := range re.FindAllStringSubmatch(task, -1) {
			use(m)
		}
		task = re.ReplaceAllString(task, " ")
	}
	n.before = map[string]string{}
	for _, m := range inQuotes.FindAllStringSubmatch(task, -1) {
		n.quoted = append(n.quoted, m[2])
		n.before[m[2]] = strings.ToLower(m[1])
	}
	task = inQuotes.ReplaceAllString(task, "$1 ")
	take(withDots, func(m []string) { n.dotted = append(n.dotted, m[0]) })
	take(ownerRepo, func(m []string) { n.owner = m[1:3] })
	take(person, func(m []string) { n.people = append(n.people, m[1]) })
	take(digits, func(m []string) { n.numbers = append(n.numbers, m[0]) })
	n.original = strings.Join(strings.Fields(task), " ")
	n.words = strings.Fields(strings.ToLower(n.original))
}

// hit is a signature as search_operations shows it.
type hit struct {
	name, tool string
	params     []hitParam
}

type hitParam struct {
	name, kind string
	required   bool
}

func (n *novice) search() (hits []hit) {
	args, _ := json.Marshal(map[string]any{"query": n.original, "limit": 5})
	for line := range strings.Lines(called(n.t, n.rt, "search_operations", string(args))) {
		m := hitLine.FindStringSubmatch(strings.TrimSpace(line))
		if m == nil {
			continue
		}
		h := hit{name: m[1], tool: "call_write"}
		if m[4] == "read" {
			h.tool = "call_read"
		}
		for p := range strings.SplitSeq(m[2], ", ") {
			name, kind, _ := strings.Cut(p, ": ")
			name, optional := strings.CutSuffix(name, "?")
			if name != "" && name != "…" {
				h.params = append(h.params, hitParam{name, kind, !optional})
			}
		}
		hits = append(hits, h)
	}
	return hits
}

// fill returns the arguments of a call of h, and whether there is a value for each required
// parameter.
func (n *novice) fill(h *hit) (args map[string]any, ok bool) {
	args = map[string]any{}
	quoted, numbers, people, dotted := slices.Clone(n.quoted), slices.Clone(n.numbers), slices.Clone(n.people), slices.Clone(n.dotted)
	pop := func(list *[]string) (any, bool) {
		if len(*list) == 0 {
			return nil, false
		}
		v := (*list)[0]
		*list = (*list)[1:]
		return v, true
	}
	text := func(name string) (any, bool) {
		for i, v := range quoted { // team "T1" is for team_id
			if slices.Contains(strings.Split(name, "_"), n.before[v]) {
				quoted = slices.Delete(quoted, i, i+1)
				return v, true
			}
		}
		for i, v := range quoted { // unless another parameter has that word
			if !slices.ContainsFunc(h.params, func(p hitParam) bool { return slices.Contains(strings.Split(p.name, "_"), n.before[v]) }) {
				quoted = slices.Delete(quoted, i, i+1)
				return v, true
			}
		}
		for _, list := range []*[]string{&quoted, &people, &dotted} {
			if v, ok := pop(list); ok {
				return v, true
			}
		}
		return nil, false
	}
	value := func(p hitParam) (any, bool) {
		switch {
		case p.name == "owner" && n.owner != nil:
			return n.owner[0], true
		case p.name == "repo" && n.owner != nil:
			return n.owner[1], true
		case strings.Contains(p.kind, "|"):
			for v := range strings.SplitSeq(strings.Trim(p.kind, "()[]"), "|") {
				for _, w := range n.words {
					if a, b := strings.ToLower(v), strings.ToLower(w); len(b) >= 4 && (strings.HasPrefix(a, b) || strings.HasPrefix(b, a) || len(b) > 5 && a[:min(4, len(a))] == b[:4]) {
						return v, true
					}
				}
			}
			return nil, false
		case p.kind == "integer":
			if v, ok := pop(&numbers); ok {
				return json.Number(v.(string)), true
			}
			return nil, false
		case p.kind == "string[]":
			v, ok := text(p.name)
			return []any{v}, ok
		case p.kind == "string":
			return text(p.name)
		}
		return nil, false
	}
	for _, required := range []bool{true, false} {
		for _, p := range h.params {
			if p.required != required {
				continue
			}
			v, found := value(p)
			if found {
				args[p.name] = v
			} else if required {
				return nil, false
			}
		}
	}
	return args, len(quoted) == 0 && len(numbers) == 0 // a call that leaves out a value does something else
}

// try makes the one call.
func (n *novice) try() (request string, r Result) {
	for _, h := range n.search() {
		args, ok := n.fill(&h)
		if !ok {
			continue
		}
		body, _ := json.Marshal(map[string]any{"operation": h.name, "params": args})
		r, _ = n.rt.CallTool(context.Background(), h.tool, &Request{Body: body, Session: "s"})
		return h.tool + " " + string(body), r
	}
	return "", r
}

// fits reports whether a request is the one that a line of tasks.tsv describes.
func fits(s sent, want string) bool {
	parts := strings.SplitN(want, " ", 3)
	u, err := url.Parse(s.url)
	if err != nil || s.method != parts[0] || strings.TrimPrefix(u.Path, "/v1") != parts[1] {
		return false
	}
	if len(parts) < 3 {
		return true
	}
	var members map[string]any
	if json.Unmarshal([]byte(parts[2]), &members) != nil {
		return false
	}
	var body any
	_ = json.Unmarshal([]byte(s.body), &body)
	for k, v := range members {
		if !contains(body, k, v) && u.Query().Get(k) != v {
			return false
		}
	}
	return true
}

// contains reports whether v is the member k of body or of an object in it.
func contains(body any, k string, v any) bool {
	switch b := body.(type) {
	case map[string]any:
		for name, inner := range b {
			if name == k && reflect.DeepEqual(inner, v) || contains(inner, k, v) {
				return true
			}
		}
	case []any:
		return slices.ContainsFunc(b, func(inner any) bool { return contains(inner, k, v) })
	}
	return false
}

// TestFirstTry counts how many tasks of find/testdata/tasks.tsv a novice does with its first
// call, and names those that it does not.
func TestFirstTry(t *testing.T) {
	ours, theirs := shippedRuntime(t, Options{Shown: Shown{Mode: present.Search}}), allOfGitHub(t, Options{Shown: Shown{Mode: present.Search}})
	data, err := os.ReadFile("find/testdata/tasks.tsv")
	if err != nil {
		t.Fatal(err)
	}
	right, held, all := 0, 0, 0
	for line := range strings.Lines(string(data)) {
		if strings.HasPrefix(line, "#") {
			continue
		}
		f := strings.Split(strings.TrimSuffix(line, "\n"), "\t")
		n := &novice{rt: theirs, t: t}
		if f[0] == "shipped" {
			n.rt = ours
		}
		requests := capture(n.rt, `{"data":{}}`)
		n.read(f[1])
		request, r := n.try()
		all++
		switch {
		case len(*requests) == 1 && slices.ContainsFunc(f[2:], func(want string) bool { return fits((*requests)[0], want) }):
			right++
		case r.Failure != nil && r.Failure.Code == failure.ConfirmationRequired:
			held++
			t.Logf("held: %s: %s: needs a person's consent", f[1], request)
		case request == "":
			t.Logf("none: %s", f[1])
		default:
			t.Logf("wrong: %s: %s: %s", f[1], request, r.JSON())
		}
	}
	t.Logf("%d of %d right with the first call, %d held for a person", right, all, held)
	if right < 33 {
		t.Error("want 33")
	}
}
