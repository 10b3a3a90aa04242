package main

import (
	"bytes"
	"compress/flate"
	"io"
	"os"
	"strings"
	"testing"

	"github.com/tiktoken-go/tokenizer"
)

// TestMergeFilesAreWhatTheGeneratorMakes compares them before compression: other versions of Go may compress otherwise.
func TestMergeFilesAreWhatTheGeneratorMakes(t *testing.T) {
	for _, e := range encodings {
		want, err := table(e.name, e.tokens)
		if err != nil {
			t.Fatal(err)
		}
		file, err := os.ReadFile("../../" + string(e.name) + ".merges")
		if err != nil {
			t.Fatal(err)
		}
		got, err := io.ReadAll(flate.NewReader(bytes.NewReader(file)))
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(got, want) {
			t.Errorf("%s.merges is another vocabulary than the library's: run go generate in transform/tokens", e.name)
		}
	}
}

// TestVocabulariesWithAnotherNumberOfTokensAreRefused: the next release of the library may have other tokens.
func TestVocabulariesWithAnotherNumberOfTokensAreRefused(t *testing.T) {
	for tokens, want := range map[int]string{100255: "more than 100255 tokens", 100257: "invalid token: 100256"} {
		if _, err := table(tokenizer.Cl100kBase, tokens); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%d tokens: %v, want %q", tokens, err, want)
		}
	}
}
