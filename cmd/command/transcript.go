package command

import (
	"cmp"
	"fmt"
	"io"
	"strings"
	"sync"

	"github.com/tidwall/gjson"

	"github.com/dragoman-proxy/dragoman/proxy/commands/demo"
)

// The most bytes that are shown of a message and of a value, and the most changes.
const (
	maxShownMessage = 600
	maxShownValue   = 60
	maxShownChanges = 12
)

// transcript prints exchanges with the built-in server, each as a block of lines.
type transcript struct {
	mu    sync.Mutex
	out   io.Writer
	count int
}

func (t *transcript) print(e demo.Exchange) {
	method := gjson.GetBytes(e.Sent, "method").Str
	if method == "" {
		return // the client's response to a request of the server, or an invalid message
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.count++
	var b strings.Builder
	fmt.Fprintf(&b, "#%d %s · client of %s · server of %s\n", t.count, printable(method), cmp.Or(printable(e.Client), "?"), e.Server)
	showSide(&b, "client sent ", e.Sent)
	if e.Heard != nil {
		showSide(&b, "server got  ", e.Heard)
		showChanges(&b, e.Sent, e.Heard)
	} else {
		b.WriteString("  server got    nothing: dragoman answered\n")
	}
	if e.Said != nil {
		showSide(&b, "server sent ", e.Said)
	}
	if e.Got != nil {
		showSide(&b, "client got  ", e.Got)
	}
	if e.Said != nil && e.Got != nil {
		showChanges(&b, e.Said, e.Got)
	}
	fmt.Fprintln(t.out, b.String()) //nolint:errcheck // fails only if nothing reads out any more
}

func showSide(b *strings.Builder, side string, message []byte) {
	fmt.Fprintf(b, "  %s  %s\n", side, shortened(string(message), maxShownMessage))
}

// shortened returns JSON as one line for a terminal, cut to most bytes.
func shortened(json string, most int) string {
	text := strings.Join(strings.Fields(printableJSON(json)), " ")
	if len(text) <= most {
		return text
	}
	return strings.ToValidUTF8(text[:most], "") + "…"
}

func showChanges(b *strings.Builder, from, to []byte) {
	list := appendChanges(nil, "", gjson.ParseBytes(from), gjson.ParseBytes(to))
	for i, line := range list {
		if i == maxShownChanges {
			fmt.Fprintf(b, "      … %d more\n", len(list)-i)
			return
		}
		fmt.Fprintf(b, "      %s\n", line)
	}
}

// appendChanges appends a line for each member or element that is in one of the values
// only (- or +), or differs (~).
func appendChanges(list []string, path string, from, to gjson.Result) []string {
	value := func(v gjson.Result) string { return shortened(v.Raw, maxShownValue) }
	switch {
	case from.IsObject() && to.IsObject():
		after := to.Map()
		from.ForEach(func(k, v gjson.Result) bool {
			at := member(path, k.Str)
			if other, ok := after[k.Str]; ok {
				list = appendChanges(list, at, v, other)
			} else {
				list = append(list, "- "+at+" "+value(v))
			}
			return true
		})
		before := from.Map()
		to.ForEach(func(k, v gjson.Result) bool {
			if _, ok := before[k.Str]; !ok {
				list = append(list, "+ "+member(path, k.Str)+" "+value(v))
			}
			return true
		})
	case from.IsArray() && to.IsArray():
		before, after := from.Array(), to.Array()
		for i := range max(len(before), len(after)) {
			at := fmt.Sprintf("%s[%d]", path, i)
			switch {
			case i >= len(after):
				list = append(list, "- "+at+" "+value(before[i]))
			case i >= len(before):
				list = append(list, "+ "+at+" "+value(after[i]))
			default:
				list = appendChanges(list, at, before[i], after[i])
			}
		}
	case strings.TrimSpace(from.Raw) != strings.TrimSpace(to.Raw):
		list = append(list, "~ "+path+" "+value(from)+" → "+value(to))
	}
	return list
}

func member(path, name string) string {
	name = printable(name)
	if path == "" {
		return name
	}
	return path + "." + name
}
