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
		want, err := table(e.name, e.tokens, e.special)
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

// TestR50KIsTheBeginningOfP50K, so that one file is enough for both.
func TestR50KIsTheBeginningOfP50K(t *testing.T) {
	older, err := table(tokenizer.R50kBase, 50256, []uint{50256})
	if err != nil {
		t.Fatal(err)
	}
	newer, err := table(tokenizer.P50kBase, 50280, []uint{50256})
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(older[:256], newer[:256]) {
		t.Error("the single bytes differ")
	}
	const head = 256 + 3 // and the number of tokens
	half := 3 * (50256 - 256)
	all := 3 * (50280 - 256)
	if !bytes.Equal(older[head:][:half], newer[head:][:half]) || !bytes.Equal(older[head+half:], newer[head+all:][:half]) {
		t.Error("the tokens differ")
	}
}

// TestVocabulariesWithAnotherNumberOfTokensAreRefused: the next release of the library may have other tokens.
func TestVocabulariesWithAnotherNumberOfTokensAreRefused(t *testing.T) {
	for _, c := range []struct {
		tokens  int
		special []uint
		want    string
	}{
		{50279, []uint{50256}, "more than 50279 tokens"},
		{50281, []uint{50256}, "invalid token: 50281"},
		{50280, nil, "invalid token: 50256"},
		{50280, []uint{50256, 100}, "special token 100"},
	} {
		if _, err := table(tokenizer.P50kBase, c.tokens, c.special); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%d tokens without %v: %v, want %q", c.tokens, c.special, err, c.want)
		}
	}
}
