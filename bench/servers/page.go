package main

import (
	"bytes"
	"fmt"
	"maps"
	"slices"
	"strings"
)

const outOfTime = "the time was over"

// line is what the terminal shows of a result.
func (res *result) line() string {
	text := fmt.Sprintf("%s: %s, %s; %d differences", res.server.Name, res.speaks(), strings.Join(res.transports, " "), len(res.fresh))
	if res.failed != "" {
		text += "; " + res.failed
	}
	return fmt.Sprintf("%s (%.0f s)", text, res.took.Seconds())
}

func (res *result) speaks() string {
	switch {
	case res.revision == "" && !res.modern:
		return "no revision"
	case res.revision == "":
		return modernRevision
	case res.modern:
		return res.revision + ", " + modernRevision
	}
	return res.revision
}

// report has a line for each kind of new difference, with one of them in full.
func (res *result) report() (lines []string) {
	count := map[string]int{}
	for _, f := range res.fresh {
		count[f.key()]++
	}
	for _, f := range res.fresh {
		switch n := count[f.key()]; {
		case n == 1:
			lines = append(lines, f.String())
		case n > 1:
			lines = append(lines, fmt.Sprintf("%s, and %d more", f, n-1))
		}
		delete(count, f.key())
	}
	return lines
}

// verdict is an error if something differs that nothing names, or if nothing was run.
func verdict(results []*result) error {
	ran := 0
	for _, res := range results {
		if len(res.transports) > 0 {
			ran++
		}
		if len(res.fresh) > 0 {
			return errDiffers
		}
		if res.failed != "" && res.failed != outOfTime && !strings.HasSuffix(res.failed, outOfTime) {
			return fmt.Errorf("%s: %s", res.server.Name, res.failed)
		}
	}
	if ran == 0 {
		return fmt.Errorf("no server was run")
	}
	return nil
}

// what was tried, in the order of the page.
var columns = []struct{ key, one, many string }{
	{"tools", "tool", "tools"}, {"tools/call", "call", "calls"}, {"prompts", "prompt", "prompts"},
	{"resources", "resource", "resources"}, {"resourceTemplates", "template", "templates"},
}

func (res *result) triedText() string {
	var parts []string
	for _, c := range columns {
		switch n := res.tried[c.key]; n {
		case 0:
		case 1:
			parts = append(parts, "1 "+c.one)
		default:
			parts = append(parts, fmt.Sprint(n, " ", c.many))
		}
	}
	for _, c := range []struct{ key, text string }{
		{"completion/complete", "completion"}, {"resources/subscribe", "subscription"}, {"notifications/progress", "progress"},
		{"notifications/message", "logs"}, {"roots/list", "roots"}, {"sampling/createMessage", "sampling"}, {"elicitation/create", "elicitation"},
	} {
		if res.tried[c.key] > 0 {
			parts = append(parts, c.text)
		}
	}
	return strings.Join(parts, ", ")
}

// page is docs/servers.md.
func page(l *list, results []*result) []byte {
	var b bytes.Buffer
	b.WriteString(pageHead)
	b.WriteString("| server | version | revisions | transports | tried | what differs |\n|---|---|---|---|---|---|\n")
	for _, res := range results {
		name, version := res.server.published()
		differs := "nothing"
		if list := res.differs(); len(list) > 0 {
			differs = strings.Join(list, ". ")
		}
		if len(res.transports) == 0 {
			differs = "not run: " + res.failed
		}
		fmt.Fprintf(&b, "| %s `%s` | %s | %s | %s | %s | %s |\n", res.server.Name, name, version, res.speaks(),
			strings.Join(res.transports, ", "), res.triedText(), cell(differs))
	}
	if len(l.LeftOut) > 0 {
		b.WriteString("\nLeft out:\n\n")
		for _, name := range slices.Sorted(maps.Keys(l.LeftOut)) {
			fmt.Fprintf(&b, "- `%s`: %s\n", name, l.LeftOut[name])
		}
	}
	return b.Bytes()
}

func cell(text string) string { return strings.ReplaceAll(text, "|", `\|`) }

func (res *result) differs() (list []string) {
	list = slices.Clone(res.known)
	for _, f := range res.fresh {
		list = append(list, fmt.Sprintf("%s, clients of %s: `%s` %s", f.transport, f.revision, f.place, f.what))
	}
	slices.Sort(list)
	return slices.Compact(list)
}

const pageHead = `# Published servers, directly and through dragoman

`
