package main

import (
	"bytes"
	"fmt"
	"maps"
	"slices"
	"strings"
)

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

// verdict is an error if something differs that nothing names, or else if a server did not run.
func verdict(results []*result) (err error) {
	for _, res := range results {
		if len(res.fresh) > 0 {
			return errDiffers
		}
		if res.failed != "" && err == nil {
			err = fmt.Errorf("%s: %s", res.server.Name, res.failed)
		}
	}
	return err
}

// columns are what was tried, in the order of the page.
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

// page is docs/servers.md. Servers that were not run now keep their rows in the old one.
func page(l *list, kinds []kind, results []*result, old []byte) []byte {
	var rows bytes.Buffer
	count := 0
	for _, s := range l.Servers {
		row := oldRow(old, s)
		if i := slices.IndexFunc(results, func(res *result) bool { return res.server.Name == s.Name }); i >= 0 {
			row = results[i].row()
		}
		if row != "" {
			rows.WriteString(row + "\n")
			count++
		}
	}
	var b bytes.Buffer
	fmt.Fprintf(&b, pageHead, count, clientsText(kinds))
	b.WriteString("| server | version | revisions | transports | tried | what differs |\n|---|---|---|---|---|---|\n")
	b.Write(rows.Bytes())
	b.WriteString(pageLeftOut)
	for _, name := range slices.Sorted(maps.Keys(l.LeftOut)) {
		fmt.Fprintf(&b, "- `%s`: %s\n", name, l.LeftOut[name])
	}
	return b.Bytes()
}

// clientsText names the clients.
func clientsText(kinds []kind) string {
	var raw, published []string
	for _, k := range kinds {
		if k.published == nil {
			raw = append(raw, k.name)
		} else {
			published = append(published, "`@modelcontextprotocol/"+strings.Replace(k.name, "@", "` ", 1))
		}
	}
	text := fmt.Sprintf("clients of %s and %s that write their messages themselves", strings.Join(raw[:len(raw)-1], ", "), raw[len(raw)-1])
	if len(published) > 0 {
		text += ", and published\nones in TypeScript: " + strings.Join(published, ", and ") + ", which asks first whether the server has 2026-07-28"
	}
	return text
}

// rowStart is how the row of a server in this version begins.
func rowStart(s *server) string {
	name, version := s.published()
	return fmt.Sprintf("| %s: `%s` | %s | ", s.Name, name, version)
}

func oldRow(page []byte, s *server) string {
	for line := range strings.Lines(string(page)) {
		if strings.HasPrefix(line, rowStart(s)) {
			return strings.TrimSuffix(line, "\n")
		}
	}
	return ""
}

func (res *result) row() string {
	return rowStart(res.server) + strings.Join([]string{res.speaks(), strings.Join(res.transports, ", "), res.triedText(),
		strings.ReplaceAll(res.differsText(), "|", `\|`)}, " | ") + " |"
}

func (res *result) differsText() string {
	list := slices.Clone(res.known)
	for _, f := range res.fresh {
		list = append(list, fmt.Sprintf("%s, client %s: `%s` %s", f.transport, f.client, f.place, f.what))
	}
	if res.failed != "" {
		list = append(list, "not all was run: "+res.failed)
	}
	if len(list) == 0 {
		return "nothing"
	}
	slices.Sort(list)
	return strings.Join(slices.Compact(list), "; ")
}

const pageHead = `# Published servers behind dragoman

%d published servers, each run directly and behind dragoman. ` + "`make test-servers`" + ` installs these versions in the user's cache folder, plays the
same sessions both ways, compares all that the clients get, and writes this page.

There are %s.
They read all lists, make calls with right and wrong arguments and call a tool that does not exist; get prompts, complete arguments, read
resources and subscribe; set the log level, send progress tokens, and take a call back; and answer the server's questions (roots, sampling,
elicitation). The servers have no valid credentials, nothing of the user's environment or home, and in the run that wrote this page no
network: many calls end in an error, which must be the same one.

- "revisions" is the newest revision with a handshake that the server agrees to, and 2026-07-28 if it serves clients without one, too.
  A client is compared with itself at the server, or if the server does not have its revision's era, with a client of the server's newest
  revision. Of published clients, what their methods return and throw is compared.
- "tried" counts what the server has, and the calls that ended in a result.
- "what differs" leaves out what [revisions and losses](revisions-and-losses.md) and [bridging eras](bridging-eras.md) say, what also
  differs between two direct runs, and refusals in HTTP that are no JSON-RPC: clients get an error of JSON-RPC instead.

`

const pageLeftOut = `
Not in the table:

`
