package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/dragoman-proxy/dragoman/proxy/tests/peertest/testset"
)

// TestWorlds plays the worlds in testdata/worlds: each is the smallest that showed a fault, which its first line names.
func TestWorlds(t *testing.T) {
	files, err := filepath.Glob("testdata/worlds/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatal("no worlds", err)
	}
	texts := make([]string, len(files))
	for i, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if texts[i] = string(text); !strings.HasPrefix(texts[i], "# ") {
			t.Errorf("%s: the first line does not say what was wrong", file)
		}
	}
	t.Chdir(t.TempDir()) // worlds write files
	for i, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			hold := func(t *testing.T, inside bool) {
				for _, v := range (job{Script: texts[i], Inside: inside}).play(t).Violations {
					t.Error(v)
				}
			}
			t.Run("a wait between steps", func(t *testing.T) {
				testset.WithoutRace(t, "less runs at once than without a wait")
				hold(t, false)
			})
			t.Run("no wait between steps", func(t *testing.T) { hold(t, true) })
		})
	}
}
