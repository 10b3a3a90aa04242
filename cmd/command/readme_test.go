package command

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/tidwall/gjson"
)

// TestPagesShowTheCommandsOutput checks that the output in the README, and that in docs/transform.md with the result, is the
// output of the command above it.
func TestPagesShowTheCommandsOutput(t *testing.T) {
	said := func(text string) string { return strings.Join(strings.Fields(text), " ") }
	const settings = "transform: {default_max_tokens: 500}"
	shown := func(page string) string {
		text, err := os.ReadFile("../../" + page)
		if err != nil {
			t.Fatal(err)
		}
		_, shown, found := strings.Cut(string(text), "\n    $ dragoman transform --config dragoman.yaml --tool run_tests < transform/testdata/failed_tests.json\n")
		if !found || !strings.Contains(string(text), "\n    "+settings+"\n") {
			t.Fatalf("%s: the command is not there", page)
		}
		return said(shown)
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
	for page, all := range map[string][]string{
		"README.md":         {told},
		"docs/transform.md": {told, gjson.Get(out, "content.0.text").Str, gjson.Get(out, "content.1.text").Str},
	} {
		for _, want := range all {
			if !strings.Contains(shown(page), said(want)) {
				t.Errorf("%s lacks\n%s", page, want)
			}
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

// TestSnippetsForClients checks that dragoman accepts the command lines in the entries for clients'
// configurations.
func TestSnippetsForClients(t *testing.T) {
	page, err := os.ReadFile("../../docs/getting-started.md")
	if err != nil {
		t.Fatal(err)
	}
	taken := func(args []string) {
		cmd, flags, err := command(nil).Find(args)
		if err != nil || cmd.Parent() == nil {
			t.Errorf("dragoman %q: no such command (%v)", args, err)
			return
		}
		if err := cmd.ParseFlags(flags); err != nil {
			t.Errorf("dragoman %q: %v", args, err)
		}
	}
	snippets := regexp.MustCompile("(?s)```(json|toml)\n(.*?)\n```").FindAllStringSubmatch(string(page), -1)
	commands := 0
	for _, s := range snippets {
		list := regexp.MustCompile(`(?:"args":|args =) (\[.*?\])`).FindStringSubmatch(s[2])
		if s[1] == "json" && !gjson.Valid(s[2]) {
			t.Errorf("not JSON: %s", s[2])
		}
		if list == nil {
			continue
		}
		commands++
		var args []string
		for _, a := range gjson.Parse(list[1]).Array() {
			args = append(args, a.Str)
		}
		taken(args)
	}
	for _, line := range regexp.MustCompile(`(?m)^    (?:\S+ mcp add \S+ -- )?dragoman (.*)$`).FindAllStringSubmatch(string(page), -1) {
		commands++
		taken(strings.Fields(strings.ReplaceAll(line[1], "'Authorization: Bearer ${TOKEN}'", "A:b")))
	}
	if commands == 0 {
		t.Error("no command line found")
	}
}
