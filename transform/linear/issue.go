package linear

import (
	"bytes"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/dragoman-proxy/dragoman/transform/grapheme"
	"github.com/dragoman-proxy/dragoman/transform/tree"
	"github.com/dragoman-proxy/dragoman/translate/wire"
)

// The greatest lengths of texts, in code points, and the mark of a shortened
// one.
const (
	maxDescription = 300
	maxBody        = 500
	marker         = "... [truncated]"
)

// summarizer writes summaries.
type summarizer struct {
	Options
	out []byte
}

func (s *summarizer) list(v tree.Value) {
	s.out = append(s.out, '[')
	for e := range entries(v) {
		s.out = wire.Comma(s.out)
		if n := node(e); isIssue(n) {
			s.issue(n, nil)
		} else {
			s.out = wire.AppendCompact(s.out, e.Raw())
		}
	}
	s.out = append(s.out, ']')
}

// beside writes members as they are. Of several with the same name it writes
// the first, which is the innermost.
func (s *summarizer) beside(members []tree.Value, separator byte) {
	var names []string
	for _, m := range members {
		name := m.Key()
		if slices.Contains(names, name) {
			continue
		}
		names = append(names, name)
		s.out = append(s.out, separator)
		s.out = append(wire.AppendQuoted(s.out, name), ':')
		s.out = wire.AppendCompact(s.out, m.Raw())
		separator = ','
	}
}

// issue writes one issue, with kept beside its own members.
func (s *summarizer) issue(v tree.Value, kept []tree.Value) {
	s.out = append(s.out, '{')
	if id := v.First("identifier", "id"); id.Present() {
		s.out = append(s.out, `"id":`...)
		s.scalar(id)
		s.out = append(s.out, ',')
	}
	s.out = append(s.out, `"title":`...)
	if title := v.Get("title"); title.Is(wire.String) {
		s.scalar(title)
	} else {
		s.out = append(s.out, `""`...)
	}
	s.name("status")
	s.scalar(firstOf(v.Get("state", "name"), text(v.Get("status")), v.Get("status", "name"), text(v.Get("state"))))
	s.name("assignee")
	assignee := v.Get("assignee")
	s.scalar(firstOf(assignee.Get("name"), assignee.Get("displayName"), text(assignee), assignee.Get("email")))
	s.name("priority")
	s.priority(v.Get("priority"))
	if s.Detail == "standard" {
		s.details(v)
	}
	if s.Comments {
		s.comments(v)
	}
	s.beside(kept, ',')
	s.out = append(s.out, '}')
}

func (s *summarizer) name(name string) {
	s.out = append(s.out, ',')
	s.out = append(wire.AppendQuoted(s.out, name), ':')
}

// scalar writes a value as it is, or null if there is none.
func (s *summarizer) scalar(v tree.Value) {
	if !v.Present() {
		s.out = append(s.out, "null"...)
		return
	}
	s.out = wire.AppendCompact(s.out, v.Raw())
}

// present writes a member if it has a value.
func (s *summarizer) present(name string, v tree.Value) {
	if v.Present() {
		s.name(name)
		s.scalar(v)
	}
}

// text returns v if it is a string, and nothing otherwise.
func text(v tree.Value) tree.Value {
	if !v.Is(wire.String) {
		return tree.Value{}
	}
	return v
}

// firstOf returns the first value that is neither missing nor null.
func firstOf(values ...tree.Value) tree.Value {
	for _, v := range values {
		if v.Present() {
			return v
		}
	}
	return tree.Value{}
}

// priority writes the number, which the API has as a float: 2.0 is 2.
func (s *summarizer) priority(v tree.Value) {
	if v.Is(wire.Object) {
		v = firstOf(v.Get("value"), v.Get("name"))
	}
	if raw := v.Raw(); v.Is(wire.Number) {
		s.out = append(s.out, whole(raw)...)
		return
	}
	s.scalar(v)
}

// whole returns a number without its fraction if that is zero.
func whole(number []byte) []byte {
	before, fraction, ok := bytes.Cut(number, []byte("."))
	if ok && len(bytes.Trim(fraction, "0")) == 0 {
		return before
	}
	return number
}

// priorityLabels returns Linear's names of priorities 0 to 4:
// https://linear.app/docs/priority
func priorityLabels() []string { return []string{"No priority", "Urgent", "High", "Medium", "Low"} }

func (s *summarizer) details(v tree.Value) {
	priority := v.Get("priority")
	label := firstOf(v.First("priorityLabel", "priority_label"), priority.Get("name"), priority.Get("label"))
	number := firstOf(priority.Get("value"), priority)
	switch n := number.Raw(); {
	case label.Present():
		s.present("priority_label", label)
	case number.Is(wire.Number) && len(whole(n)) == 1 && int(n[0]-'0') < len(priorityLabels()):
		s.name("priority_label")
		s.out = wire.AppendQuoted(s.out, priorityLabels()[n[0]-'0'])
	}
	s.present("state_type", firstOf(v.Get("state", "type"), v.Get("status", "type"), v.First("statusType", "state_type")))
	s.labels(v.Get("labels"))
	s.present("project", firstOf(v.Get("project", "name"), text(v.Get("project"))))
	s.present("team", firstOf(v.Get("team", "key"), v.Get("team", "name"), text(v.Get("team"))))
	estimate := v.Get("estimate")
	s.present("estimate", firstOf(estimate.Get("value"), estimate))
	s.present("due_date", v.First("dueDate", "due_date"))
	s.present("url", v.Get("url"))
	s.present("updated_at", v.First("updatedAt", "updated_at"))
	if d := v.Get("description"); d.Is(wire.String) && len(d.Raw()) > len(`""`) {
		s.name("description")
		s.shortened(d, maxDescription, middle)
	}
}

// labels writes the names of labels.
func (s *summarizer) labels(v tree.Value) {
	if !v.Present() {
		return
	}
	s.name("labels")
	s.out = append(s.out, '[')
	for e := range entries(v) {
		n := node(e)
		label := firstOf(n.Get("name"), text(n))
		if !label.Present() {
			continue
		}
		s.out = wire.Comma(s.out)
		s.scalar(label)
	}
	s.out = append(s.out, ']')
}

// comments writes the author, time and text of each comment, oldest first.
func (s *summarizer) comments(issue tree.Value) {
	v := issue.Get("comments")
	var all []tree.Value
	for e := range entries(v) {
		if n := node(e); n.Is(wire.Object) {
			all = append(all, n)
		}
	}
	created := func(c tree.Value) tree.Value { return c.First("createdAt", "created_at") }
	slices.SortStableFunc(all, func(a, b tree.Value) int {
		return strings.Compare(created(a).Text(), created(b).Text())
	})
	s.name("comments")
	s.out = append(s.out, '[')
	for _, c := range all {
		s.out = wire.Comma(s.out)
		s.out = append(s.out, `{"author":`...)
		s.scalar(firstOf(c.Get("user", "name"), c.Get("botActor", "name"), c.Get("externalUser", "name"),
			text(c.Get("user")), c.Get("author", "name"), text(c.Get("author"))))
		s.name("created_at")
		s.scalar(created(c))
		s.name("body")
		s.shortened(c.Get("body"), maxBody, end)
		s.out = append(s.out, '}')
	}
	s.out = append(s.out, ']')
	if more := firstOf(v.Get("pageInfo", "hasNextPage"), v.Get("hasNextPage"), issue.Get("comments_has_more")); more.True() {
		s.out = append(s.out, `,"comments_has_more":true`...)
	}
}

// cut says where a text is shortened.
type cut int

const (
	end cut = iota
	middle
)

// shortened writes a text with at most limit code points, the marker included,
// and no character cut in two.
func (s *summarizer) shortened(v tree.Value, limit int, where cut) {
	raw := v.Raw()
	full := v.Text()
	runes := utf8.RuneCountInString(full)
	if !v.Is(wire.String) || len(raw) <= limit || runes <= limit {
		s.scalar(v)
		return
	}
	keep := limit - utf8.RuneCountInString(marker)
	tail := 0
	if where == middle {
		tail = keep / 2
	}
	before := grapheme.Floor([]byte(full), runeIndex(full, keep-tail))
	behind := grapheme.Ceil([]byte(full), runeIndex(full, runes-tail))
	s.out = wire.AppendQuoted(s.out, full[:before]+marker+full[behind:])
}

// runeIndex returns where the n-th code point begins.
func runeIndex(text string, n int) int {
	for i := range text {
		if n--; n < 0 {
			return i
		}
	}
	return len(text)
}
