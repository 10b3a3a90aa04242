package peers

import (
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/dragoman-proxy/dragoman/bench/simulate/trace"
)

// listTools reads the list of tools page by page, and looks whether it is whole.
func (s *clientSession) listTools(cursor *string, known []string, page int) {
	k := &call{method: "tools/list", params: object{}}
	if cursor != nil {
		k.params["cursor"] = *cursor
	}
	k.then = func(result json.RawMessage, failed string) {
		var r struct {
			Tools      []struct{ Name string }
			NextCursor *string
		}
		if failed != "" || json.Unmarshal(result, &r) != nil || s.over || s.c.gone {
			return
		}
		for _, t := range r.Tools {
			known = append(known, t.Name)
		}
		switch next := r.NextCursor; {
		case page == mostPages:
			s.strange(nil, "the list of tools does not end", nil)
		case next != nil && (s.c.modern || *next != ""):
			s.listTools(next, known, page+1)
		case next != nil && !slices.Contains(known, "fetch_more"): // rule C43: what is behind an empty cursor is lost for clients that take it for the end, but for dragoman's own tools
		case !slices.Contains(known, "act") || !slices.Contains(known, "noop"):
			s.strange(nil, fmt.Sprintf("the list of tools lacks some: %q", known), result)
		}
	}
	s.request(trace.Requests, k, "", "")
}

// reading is how a client reads what was cut out of an answer.
type reading struct {
	of    *call
	how   string // raw: its characters; lines: what the first answer does not show
	pages int
	text  strings.Builder // raw
	lines []string
}

// mostPages is how many pages of an answer a client reads.
const mostPages = 40

// notice is the last block of an answer that was cut: which call reads on.
var notice = regexp.MustCompile(`Next: ([A-Za-z0-9_.-]+) (\{.*\})\]$`)

// readOn reads the rest of the answer of k, if it was cut.
func (s *clientSession) readOn(k *call, result json.RawMessage) {
	r := &reading{of: k, how: k.plan.More}
	text, tool, next := cutText(result)
	if tool == "" {
		return
	}
	if r.how == "raw" { // from the beginning
		next = object{"cursor": next["cursor"], "raw": true}
	} else {
		r.take(text)
	}
	r.ask(tool, next)
}

// cutText returns the text of an answer, and the call that reads on; tool is "" if it is the whole of it.
func cutText(result json.RawMessage) (text, tool string, next object) {
	var r struct{ Content []struct{ Text string } }
	_ = json.Unmarshal(result, &r)
	for i, block := range r.Content {
		if i == 0 || !strings.HasPrefix(block.Text, "[") {
			text += block.Text
		} else if found := notice.FindStringSubmatch(block.Text); found != nil {
			tool = found[1]
			_ = json.Unmarshal([]byte(found[2]), &next)
		}
	}
	return text, tool, next
}

// ask asks for the next page.
func (r *reading) ask(tool string, next object) {
	s := r.of.s
	r.pages++
	k := &call{method: "tools/call", params: object{"name": tool, "arguments": next}}
	k.then = func(result json.RawMessage, failed string) {
		if failed != "" {
			r.ended("", failed)
			return
		}
		text, tool, next := cutText(result)
		switch r.take(text); {
		case s.over || r.of.s.c.gone:
		case tool == "":
			r.ended(r.wrong(true), "")
		case r.pages == mostPages:
			r.ended(r.wrong(false), "")
		default:
			r.ask(tool, next)
		}
	}
	s.request(trace.Requests, k, "", "more of "+r.of.mark)
}

func (r *reading) ended(wrong, failed string) {
	r.of.s.note(nil, trace.Event{Kind: trace.Whole, Mark: r.of.mark, N: r.pages, Text: wrong, Failed: failed})
}

// take takes the text of a page.
func (r *reading) take(text string) {
	r.text.WriteString(text)
	for line := range strings.SplitSeq(text, "\n") {
		if line = strings.TrimSpace(line); line != "" && !strings.Contains(line, "…") { // a gap, or what is cut: it comes again
			r.lines = append(r.lines, line)
		}
	}
}

// wrong says what is wrong with what was read; "" if it is what the server has said, or if all is unset, the beginning of it.
func (r *reading) wrong(all bool) string {
	whole := numbered(r.of.mark, "done", 1) + " " + filling(r.of.mark, r.of.plan.Size)
	if r.how == "raw" {
		return differ(r.text.String(), whole, all)
	}
	seen := map[string]int{}
	for _, line := range r.lines {
		if seen[line]++; seen[line] > 1 {
			return "twice: " + strconv.Quote(line)
		}
	}
	for line := range strings.SplitSeq(whole, "\n") {
		if line = strings.TrimSpace(line); all && line != "" && seen[line] == 0 {
			return "missing: " + strconv.Quote(line)
		}
		delete(seen, line)
	}
	for line := range seen {
		return "never said: " + strconv.Quote(line)
	}
	return ""
}

// differ says where text is not whole, or the beginning of it if all is unset.
func differ(text, whole string, all bool) string {
	if text == whole || !all && strings.HasPrefix(whole, text) {
		return ""
	}
	at := 0
	for at < len(text) && at < len(whole) && text[at] == whole[at] {
		at++
	}
	show := func(s string) string { return fmt.Sprintf("%.60q", s[max(0, at-20):]) }
	return fmt.Sprintf("%d bytes of %d, which differ at %d: %s became %s", len(text), len(whole), at, show(whole), show(text))
}
