package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tidwall/gjson"
)

// TestReadmeShowsARealAnswer: what the README prints below the command is what the
// command says.
func TestReadmeShowsARealAnswer(t *testing.T) {
	readme, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	said := func(text string) string { return strings.Join(strings.Fields(text), " ") }
	const settings = "transform: {default_max_tokens: 500}"
	all := string(readme)
	_, shown, found := strings.Cut(all, "\n    $ dragoman transform --config dragoman.yaml --tool run_tests < transform/testdata/failed_tests.json\n")
	if !found || !strings.Contains(all, "\n    "+settings+"\n") {
		t.Fatal("the command is not there")
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
