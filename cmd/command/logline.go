package command

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/rivo/uniseg"
	"go.uber.org/zap/zapcore"
)

const (
	lineColumns = 160 // the most columns of a log line as text
	leastPart   = 24  // a part of a line is cut to no fewer columns
	adviceLines = 3   // the most lines of advice that does not fit in the line it belongs to
)

// stackField is the field with the stack of a panic. As text it has lines of its own, without which a report says too little.
const stackField = "stack"

// leading are the fields that a log line as text has first, behind the error and what to do: what it is about. The lines of one process are
// mostly about one server, which the first line names, and a cause says little beside its error: both are spared like all other fields.
var leading = []string{"url", "file", "address", "adapter", "operation", "tool", "server", "cause", "method"}

// telling are the fields without which a message says little. As text they stand behind it, as the error does.
var telling = []string{"problem", "losses", "changes", "panic", "settings", "sources", "tools", "paths", "contract", "said", "line", "error"}

const (
	beforeAdvice = " → "
	adviceIndent = "    → " // of advice in lines of its own
)

const (
	dimmed    = "\x1b[2m"
	bold      = "\x1b[1m"
	endColour = "\x1b[0m"
)

var levelColours = map[zapcore.Level]string{zapcore.DebugLevel: dimmed, zapcore.InfoLevel: "\x1b[32m", zapcore.WarnLevel: "\x1b[33m", zapcore.ErrorLevel: "\x1b[31m"}

// A part of a line is cut at its end where the line would be too long.
type part struct {
	before, text string // before is a separator or a name, and is not cut
	dim          bool
	spare        bool // left out where the line would be too long
	whole        bool // not cut
}

func (p *part) columns() int { return uniseg.StringWidth(p.before) + uniseg.StringWidth(p.text) }

// textLine returns a log line for a person at a terminal: the time of day, the level, the message, the error, what to do, then the other
// fields, the most important ones first. It has at most lineColumns columns: what to do stands in lines below where it has no room, the last
// fields are left out, and long values cut. Values may be from peers: characters that control a terminal are escaped.
func textLine(e zapcore.Entry, fields []zapcore.Field, colour bool) string {
	values := map[string]string{}
	var names []string
	for i := range fields {
		m := zapcore.NewMapObjectEncoder()
		fields[i].AddTo(m)
		for _, name := range sortedNames(m.Fields) {
			text := valueText(m.Fields[name])
			if s, ok := fields[i].Interface.(fmt.Stringer); ok && fields[i].Type == zapcore.ArrayMarshalerType { // a list of objects that has a form as text
				text = shownText(s.String())
			}
			if text != "" {
				if values[name] == "" {
					names = append(names, name)
				}
				values[name] = text
			}
		}
	}
	if values["problem"] != "" { // as compilers write it
		at := values["file"]
		if n := values["line"]; n != "" && n != "0" {
			at += ":" + n
		}
		values["problem"] = strings.TrimPrefix(at+": "+values["problem"], ": ")
		values["line"] = ""
		names = slices.DeleteFunc(names, func(name string) bool { return name == "file" })
	}
	head := e.Time.Format(time.TimeOnly) + " " + fmt.Sprintf("%-5s", e.Level.CapitalString())
	parts := []part{{before: " ", text: shownText(e.Message)}}
	add := func(name, before string) {
		if values[name] != "" {
			parts = append(parts, part{before: before, text: values[name]})
		}
	}
	for _, name := range telling {
		add(name, ": ")
	}
	essential := len(parts)
	add("advice", beforeAdvice)
	slices.SortStableFunc(names, func(a, b string) int { return rank(a) - rank(b) })
	for _, name := range names {
		if name == "advice" || name == stackField || slices.Contains(telling, name) {
			continue
		}
		value := values[name]
		if value == "" || strings.ContainsAny(value, " =\"") {
			value = `"` + strings.ReplaceAll(value, `"`, `\"`) + `"`
		}
		parts = append(parts, part{before: " " + shownText(name) + "=", text: value, dim: true, spare: rank(name) >= rank("server")})
	}
	columns := lineColumns - uniseg.StringWidth(head)
	var advice []string
	if len(parts) > essential && parts[essential].before == beforeAdvice && needs(parts) > columns {
		advice = wrapped(parts[essential].text, lineColumns-uniseg.StringWidth(adviceIndent), adviceLines)
		parts = slices.Delete(parts, essential, essential+1)
	}
	for i := range parts[:essential] {
		parts[i].whole = needs(parts[:essential]) <= columns
	}
	var b strings.Builder
	if colour {
		b.WriteString(dimmed + e.Time.Format(time.TimeOnly) + endColour + " " + levelColours[e.Level] + fmt.Sprintf("%-5s", e.Level.CapitalString()) + endColour)
	} else {
		b.WriteString(head)
	}
	for _, p := range fitting(parts, columns) {
		switch text := p.before + p.text; {
		case colour && p.dim:
			b.WriteString(dimmed + text + endColour)
		case colour && e.Level >= zapcore.WarnLevel && p.before == " ":
			b.WriteString(" " + bold + p.text + endColour)
		default:
			b.WriteString(text)
		}
	}
	b.WriteByte('\n')
	for i, line := range advice {
		if i > 0 {
			line = strings.Repeat(" ", uniseg.StringWidth(adviceIndent)) + line
		} else {
			line = adviceIndent + line
		}
		b.WriteString(line + "\n")
	}
	if values[stackField] != "" {
		for line := range strings.Lines(stackOf(fields)) {
			b.WriteString("    " + cut(shownText(strings.TrimRight(strings.ReplaceAll(line, "\t", "  "), "\r\n")), lineColumns-4) + "\n")
		}
	}
	return b.String()
}

// needs returns the columns of the parts that are not spare.
func needs(parts []part) (sum int) {
	for i := range parts {
		if !parts[i].spare {
			sum += parts[i].columns()
		}
	}
	return sum
}

// fitting returns parts that have no more columns together: spare ones are left out from the end, and then the longest ones are cut.
func fitting(parts []part, columns int) []part {
	sum := 0
	for i := range parts {
		sum += parts[i].columns()
	}
	for i := len(parts) - 1; i > 0 && sum > columns && parts[i].spare; i-- {
		sum -= parts[i].columns()
		parts = parts[:i]
	}
	widths := make([]int, len(parts)) // measuring takes long
	for i := range parts {
		widths[i] = uniseg.StringWidth(parts[i].text)
	}
	for sum > columns {
		longest, was, second := -1, leastPart, leastPart
		for i := range parts {
			if n := widths[i]; !parts[i].whole && n > was {
				longest, was, second = i, n, was
			} else if !parts[i].whole {
				second = max(second, n)
			}
		}
		if longest < 0 { // there are too many
			sum -= parts[len(parts)-1].columns()
			parts = parts[:len(parts)-1]
			continue
		}
		// Down to the second longest, but by one column at least, so that those of equal length are cut in turn.
		parts[longest].text = cut(parts[longest].text, max(was-(sum-columns), min(second, was-1)))
		widths[longest] = uniseg.StringWidth(parts[longest].text)
		sum -= was - widths[longest]
	}
	return parts
}

// wrapped returns a text in at most so many lines of so many columns, parted at spaces where there are any. What is left is cut.
func wrapped(text string, columns, most int) (lines []string) {
	for len(lines) < most-1 && uniseg.StringWidth(text) > columns {
		line := strings.TrimSuffix(strings.TrimRight(cell(text, columns+1), " "), "…")
		if i := strings.LastIndexByte(line, ' '); i > 0 && len(line) < len(text) && text[len(line)] != ' ' {
			line = line[:i]
		}
		lines = append(lines, strings.TrimRight(line, " "))
		text = strings.TrimLeft(text[len(line):], " ")
	}
	return append(lines, cut(text, columns))
}

// cut returns a text of at most this many columns, with … for what is missing.
func cut(text string, columns int) string {
	if uniseg.StringWidth(text) <= columns {
		return text
	}
	return strings.TrimRight(cell(text, columns), " ")
}

func rank(name string) int {
	if i := slices.Index(leading, name); i >= 0 {
		return i
	}
	return len(leading)
}

func sortedNames(fields map[string]any) []string {
	names := make([]string, 0, len(fields))
	for name := range fields {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// valueText returns the value of a field in one line.
func valueText(value any) string {
	switch v := value.(type) {
	case string:
		return shownText(v)
	case []byte:
		return shownText(string(v))
	case time.Duration:
		return shown(v).String()
	case time.Time:
		return v.Format(time.RFC3339)
	case []any:
		texts := make([]string, len(v))
		for i := range v {
			texts[i] = valueText(v[i])
		}
		return strings.Join(texts, ", ")
	}
	switch reflect.ValueOf(value).Kind() {
	case reflect.Map, reflect.Struct:
		if text, err := json.Marshal(value); err == nil {
			return shownText(string(text))
		}
	}
	return shownText(fmt.Sprint(value))
}

// stackOf returns the stack that one of the fields holds.
func stackOf(fields []zapcore.Field) string {
	m := zapcore.NewMapObjectEncoder()
	for i := range fields {
		if fields[i].Key == stackField {
			fields[i].AddTo(m)
		}
	}
	switch v := m.Fields[stackField].(type) {
	case string:
		return v
	case []byte:
		return string(v)
	}
	return ""
}

// shownText makes a text safe for one line of a terminal: it escapes characters that control it or make a text look like another, and
// writes the arrow before advice as ->, since no peer gives advice.
func shownText(text string) string {
	if !strings.ContainsFunc(text, func(r rune) bool { return steers(r) || r == '\u2028' || r == '\u2029' || r == '→' || r == '\ufffd' }) {
		return text
	}
	var b strings.Builder
	for i, r := range text {
		switch {
		case r == '→':
			b.WriteString("->")
		case r == '\ufffd' && text[i] != "\ufffd"[0]:
			fmt.Fprintf(&b, `\x%02x`, text[i])
		case steers(r), r == '\u2028', r == '\u2029':
			quoted := strconv.QuoteRuneToASCII(r)
			b.WriteString(quoted[1 : len(quoted)-1])
		default:
			b.WriteRune(r)
		}
	}
	return b.String()
}

// shown returns a duration as log lines have it, with a unit as in the configuration: to the millisecond, and short ones to the
// microsecond.
func shown(d time.Duration) time.Duration {
	if d.Abs() < 10*time.Millisecond {
		return d.Round(time.Microsecond)
	}
	return d.Round(time.Millisecond)
}
