package command

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/tidwall/gjson"
)

// TestPageShowsTheCommandsOutput checks that what docs/transform.md shows of a command, with the result, is what it prints.
func TestPageShowsTheCommandsOutput(t *testing.T) {
	said := func(text string) string { return strings.Join(strings.Fields(text), " ") }
	const settings = "transform: {default_max_tokens: 500}"
	const page = "docs/transform.md"
	text, err := os.ReadFile("../../" + page)
	if err != nil {
		t.Fatal(err)
	}
	_, shown, found := strings.Cut(string(text), "\n    $ dragoman transform --config dragoman.yaml --tool run_tests < transform/testdata/failed_tests.json\n")
	if !found || !strings.Contains(string(text), "\n    "+settings+"\n") {
		t.Fatalf("%s: the command is not there", page)
	}
	recorded, err := os.ReadFile("../../transform/testdata/failed_tests.json")
	if err != nil {
		t.Fatal(err)
	}
	config := filepath.Join(t.TempDir(), "dragoman.yaml")
	write(t, config, settings)
	out, told, err := run(t.Context(), string(recorded), "transform", "--config", config, "--tool", "run_tests")
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{told, gjson.Get(out, "content.0.text").Str, gjson.Get(out, "content.1.text").Str} {
		if !strings.Contains(said(shown), said(want)) {
			t.Errorf("%s lacks\n%s", page, want)
		}
	}
}

// TestLinksInDocumentsAreNotBroken checks that each relative link of the documents leads to a file or a folder.
func TestLinksInDocumentsAreNotBroken(t *testing.T) {
	pages, err := filepath.Glob("../../docs/*.md")
	if err != nil {
		t.Fatal(err)
	}
	links := 0
	for _, page := range append(pages, "../../README.md", "../../CONTRIBUTING.md", "../../CHANGELOG.md", "../../bench/README.md") {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		for _, link := range regexp.MustCompile(`\]\(([^)#]+)[^)]*\)`).FindAllStringSubmatch(string(text), -1) {
			if strings.Contains(link[1], "://") {
				continue
			}
			links++
			if _, err := os.Stat(filepath.Join(filepath.Dir(page), link[1])); err != nil {
				t.Errorf("%s: %v", page, err)
			}
		}
	}
	if links < 30 {
		t.Errorf("%d links", links)
	}
}

// TestTheReadmeIsShort: it says what dragoman is, when one needs it and how to begin. All else is in docs.
func TestTheReadmeIsShort(t *testing.T) {
	text, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	if len(text) > 8<<10 {
		t.Errorf("%d bytes, more than 8 KiB: move into docs what a reader does not need to begin", len(text))
	}
}

// TestSnippetsForClients checks that dragoman accepts the command lines, and those in the entries for clients' configurations.
func TestSnippetsForClients(t *testing.T) {
	taken := func(page string, args []string) {
		cmd, flags, err := command(nil).Find(args)
		if err != nil || cmd.Parent() == nil {
			t.Errorf("%s: dragoman %q: no such command (%v)", page, args, err)
			return
		}
		if err := cmd.ParseFlags(flags); err != nil {
			t.Errorf("%s: dragoman %q: %v", page, args, err)
		}
	}
	for _, page := range []string{"README.md", "docs/getting-started.md"} {
		text, err := os.ReadFile("../../" + page)
		if err != nil {
			t.Fatal(err)
		}
		snippets := regexp.MustCompile("(?s)```(json|toml)\n(.*?)\n```").FindAllStringSubmatch(string(text), -1)
		snippets = append(snippets, regexp.MustCompile(`(?m)^    ()(\{".*\})$`).FindAllStringSubmatch(string(text), -1)...)
		entries := 0
		for _, s := range snippets {
			list := regexp.MustCompile(`(?:"args":|args =) (\[.*?\])`).FindStringSubmatch(s[2])
			if s[1] != "toml" && !gjson.Valid(s[2]) {
				t.Errorf("%s: not JSON: %s", page, s[2])
			}
			if list == nil {
				continue
			}
			entries++
			var args []string
			for _, a := range gjson.Parse(list[1]).Array() {
				args = append(args, a.Str)
			}
			taken(page, args)
		}
		lines := regexp.MustCompile(`(?m)^    (?:\S+ mcp add \S+ -- |[A-Z_]+=\S+ )?dragoman (.*)$`).FindAllStringSubmatch(string(text), -1)
		for _, line := range lines {
			taken(page, strings.Fields(strings.ReplaceAll(line[1], "'Authorization: Bearer ${TOKEN}'", "A:b")))
		}
		if entries < 2 || len(lines) < 4 {
			t.Errorf("%s: found %d entries and %d lines", page, entries, len(lines))
		}
	}
}
