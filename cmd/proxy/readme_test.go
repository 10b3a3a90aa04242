package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/tidwall/gjson"
)

// TestReadmeShowsARealAnswer: what the README prints below the command is what the
// command says, but for the handle, which is another one each time, and its tokens.
func TestReadmeShowsARealAnswer(t *testing.T) {
	readme, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	handle, tokens := regexp.MustCompile(`c1_[\w-]+`), regexp.MustCompile(`(39891 -> )\d+`)
	said := func(text string) string {
		return strings.Join(strings.Fields(tokens.ReplaceAllString(handle.ReplaceAllString(text, "…"), "$1…")), "")
	}
	const settings = "transform: {default_max_tokens: 500}"
	all := string(readme)
	_, shown, found := strings.Cut(all, "\n    $ dragoman transform --config dragoman.yaml --tool directory_tree < transform/testdata/directory_tree.json\n")
	if !found || !strings.Contains(all, "\n    "+settings+"\n") {
		t.Fatal("the command is not there")
	}
	recorded, err := os.ReadFile("../../transform/testdata/directory_tree.json")
	if err != nil {
		t.Fatal(err)
	}
	config := filepath.Join(t.TempDir(), "dragoman.yaml")
	write(t, config, settings)
	out, told, err := run(t.Context(), string(recorded), "transform", "--config", config, "--tool", "directory_tree")
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		told,
		gjson.Get(out, "content.0.text").Str,
		gjson.Get(out, "content.1.text").Str,
	} {
		if !strings.Contains(said(shown), said(want)) {
			t.Errorf("the README lacks\n%s", want)
		}
	}
}
