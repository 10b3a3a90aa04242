package comingfrom

import (
	"bytes"
	"cmp"
	"flag"
	"fmt"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"

	"gopkg.in/yaml.v3"

	"github.com/dragoman-proxy/dragoman/proxy/config"
)

var update = flag.Bool("update", false, "write docs/coming-from.md")

// page is generated from the rows.
const page = "../../../docs/coming-from.md"

const pageHead = `# Coming from another tool

A line of another tool runs with ` + "`" + `dragoman as` + "`" + ` in the place of ` + "`" + `npx -y` + "`" + ` or ` + "`" + `uvx` + "`" + `:

    dragoman as mcp-remote https://mcp.example.com/mcp 3334 --header 'Authorization: Bearer ${TOKEN}'
    dragoman as supergateway --stdio "npx -y @modelcontextprotocol/server-everything" --port 8000
    dragoman as mcp-proxy --port 8080 -- npx -y @modelcontextprotocol/server-everything
    dragoman as mcp-proxy-py --port 8080 -- npx -y @modelcontextprotocol/server-everything
    dragoman as tbxark -config config.json

So does an entry of a client: ` + "`\"command\": \"dragoman\", \"args\": [\"as\", \"mcp-remote\", …]`" + `. Three tools are called mcp-proxy: npx runs
npm's, uvx and pipx run Python's, and a line with ` + "`-config FILE`" + ` is TBXark's.

All that each tool takes, flags by their names, stands in its table; the numbers say how much of it is written in the same word for dragoman, in
another word, needs no word, has no effect (which a line on stderr says), or is refused, since without it you would get something else:

`

const pageMiddle = `
## What to know

The tool's options, defaults, arguments and variables hold, and its exit codes where a script can depend on them. A line on stderr says
what dragoman's own line is, without secrets: write that one when you have a minute. ` + "`DRAGOMAN_`" + ` variables count as ever; what
the tool's line has wins over them, and they win over the tool's defaults. A server that ends is started again.

It listens where the tool does: supergateway and npm's mcp-proxy on all addresses. Where other machines need no key, that line
says so. Two things are not taken over: no web page of another origin is let in unless ` + "`--cors`" + ` is in the line, and a request that names a host
in ` + "`Host`" + ` that is neither local nor an IP address, such as the name of a service in a compose file, needs that name in ` + "`DRAGOMAN_ALLOWED_HOSTS`" + `.

On purpose there is none of these:

- An ID token in place of an access token: its audience is the client, so that a server which takes it takes that of every other client.
- IPv4 only: the addresses of both families are tried, and one that does not answer delays the other little.
- Headers from a command: write them to a file, which is read again when it changes (` + "`--header-file`" + `).
- WebSocket: no revision of MCP has it.
- Tunnels: another company would see the messages. Start one of your own to dragoman's port.
- Headers of dragoman's responses: a reverse proxy in front sets those.
- Several servers behind one endpoint: dragoman stands in front of one server. TBXark's mcp-proxy and Python's mcp-proxy have
  one path for each of several servers, and agentgateway joins their tools. Start one dragoman for each server behind them.
`

// TestPage compares docs/coming-from.md with the rows. With -update it writes the page.
func TestPage(t *testing.T) {
	var counts, tools strings.Builder
	counts.WriteString("| tool | `dragoman as` | version | same | another word | no word | no effect | refused |\n|---|---|---|---|---|---|---|---|\n")
	for _, name := range Names() {
		tool, err := Load(name)
		if err != nil {
			t.Fatal(err)
		}
		by := map[string]int{}
		as, takes := "`"+name+"`", "`dragoman as "+name+"` takes what"
		if wholes[name] == nil {
			as, takes = "none", "This is what"
		}
		fmt.Fprintf(&tools, "\n## %s\n\n%s %s %s %s (%s) takes.\n", tool.Title, tool.About, takes, tool.Package, tool.Version, tool.Registry)
		line, around := tool.shown()
		for _, rows := range [][]Row{line, around} {
			fmt.Fprintf(&tools, "\n| %s | default | how | dragoman | note |\n|---|---|---|---|---|\n", map[bool]string{true: "on its line", false: "around its line"}[&rows[0] == &line[0]])
			for _, r := range rows {
				by[r.Answer]++
				fmt.Fprintf(&tools, "| %s | %s | %s | %s | %s |\n", cell(r.spelt("`")), cell(r.Default), cmp.Or(answers[r.Answer], r.Answer), cell(r.Ours), cell(r.Note))
			}
		}
		fmt.Fprintf(&counts, "| [%s](#%s) | %s | %s | %d | %d | %d | %d | %d |\n", tool.Title, anchor(tool.Title), as, tool.Version, by[Same], by[Form], by[Found], by[Ignored], by[Refused])
	}
	want := pageHead + counts.String() + pageMiddle + tools.String()
	if *update {
		if err := os.WriteFile(page, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if got, err := os.ReadFile(page); err != nil || string(got) != want {
		t.Errorf("docs/coming-from.md is not what the rows say (%v): go test ./cmd/command/comingfrom -run TestPage -update", err)
	}
}

// cell is a text in a table of Markdown.
func cell(text string) string {
	return strings.NewReplacer("|", `\|`, "<", "&lt;", "*", `\*`).Replace(text)
}

// anchor is the place of a heading in a page.
func anchor(title string) string {
	return strings.NewReplacer(" ", "-", "(", "", ")", "", "'", "").Replace(strings.ToLower(title))
}

// TestRows: each row is whole, and sets what dragoman has.
func TestRows(t *testing.T) {
	known := map[string]bool{}
	c := config.Default()
	_ = c.EachSetting(func(path string, _ reflect.Value) error {
		known[config.EnvPrefix+strings.ToUpper(strings.ReplaceAll(path, ".", "_"))] = true
		return nil
	})
	for flag, variable := range ofDragoman {
		if !known[variable] {
			t.Errorf("%s: there is no setting %s", flag, variable)
		}
	}
	for _, name := range Names() {
		text, err := files.ReadFile("tools/" + name + ".yaml")
		if err != nil {
			t.Fatal(err)
		}
		var tool Tool
		from := yaml.NewDecoder(bytes.NewReader(text))
		from.KnownFields(true)
		if err := from.Decode(&tool); err != nil {
			t.Error(err)
		}
		for cell, text := range map[string]string{"tool": tool.Name, "title": tool.Title, "package": tool.Package, "registry": tool.Registry, "version": tool.Version, "about": tool.About} {
			if text == "" {
				t.Errorf("%s: %s is empty", name, cell)
			}
		}
		if tool.Name != name {
			t.Errorf("%s: is the file of %s", name, tool.Name)
		}
		seen := map[string]bool{}
		for _, r := range tool.Rows {
			for cell, text := range map[string]string{"theirs": r.Theirs, "kind": r.Kind, "default": r.Default, "ours": r.Ours, "note": r.Note} {
				if text == "" {
					t.Errorf("%s %s: %s is empty", name, r.Theirs, cell)
				}
			}
			writes := len(r.Flags)+len(r.Env) > 0
			switch {
			case !slices.Contains([]string{Same, Form, Found, Ignored, Refused}, r.Answer):
				t.Errorf("%s %s: answer %q", name, r.Theirs, r.Answer)
			case writes && r.Answer != Same && r.Answer != Form:
				t.Errorf("%s %s: is %s, and writes something", name, r.Theirs, r.Answer)
			case !slices.Contains([]string{"", "number", "list", "each"}, r.Takes), !slices.Contains([]string{"", "serve", "stdio"}, r.Only):
				t.Errorf("%s %s: takes %q, only %q", name, r.Theirs, r.Takes, r.Only)
			case seen[r.Theirs+r.Only]:
				t.Errorf("%s %s: twice", name, r.Theirs)
			}
			seen[r.Theirs+r.Only] = true
			for setting := range r.Env {
				if !known[setting] {
					t.Errorf("%s %s: there is no setting %s", name, r.Theirs, setting)
				}
			}
		}
	}
	if tool, err := Load("npx"); tool != nil || err != nil {
		t.Error("a tool that is none:", tool, err)
	}
}

// TestHelp: each row of a tool is in its help, in every spelling, and what has no heading of its own says what it is.
func TestHelp(t *testing.T) {
	for _, name := range Names() {
		tool, err := Load(name)
		if err != nil {
			t.Fatal(err)
		}
		help := tool.Help()
		at := 0
		for _, r := range tool.Rows {
			if !strings.Contains(help, "\n  "+r.spelt("")+" ") && !strings.Contains(help, "\n  "+r.spelt("")+"\n") {
				t.Errorf("%s --help has no %s", name, r.spelt(""))
			}
		}
		line, _ := tool.shown()
		for _, r := range line { // flags by their names
			next := strings.Index(help, "\n  "+r.spelt(""))
			if next < at {
				t.Errorf("%s --help: %s stands too early", name, r.Theirs)
			}
			at = next
		}
	}
	if tool, _ := Load("mcp-proxy-py"); !strings.Contains(tool.Help(), "\n  --headers, -H NAME VALUE ") || !strings.Contains(tool.Help(), "\n  exit code 2 ") || !strings.Contains(tool.Help(), "\n  --no-pass-environment, --no-stateless, --no-debug\n") {
		t.Error(tool.Help())
	}
}
