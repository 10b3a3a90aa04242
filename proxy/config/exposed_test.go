package config

import (
	"maps"
	"os"
	"path/filepath"
	"testing"
)

// TestWeakness: what examples have in place of a token, and what is soon guessed, is no token for other machines.
func TestWeakness(t *testing.T) {
	for token, want := range map[string]string{
		"REPLACE": "is a placeholder", "replace-me-with-a-long-token": "is a placeholder", "CHANGEME": "is a placeholder", "change-me-change-me-change-me": "is a placeholder",
		"<a token that clients send>": "is a placeholder", "your-token-goes-right-here": "is a placeholder", "YOUR_API_KEY_YOUR_API_KEY": "is a placeholder",
		"xxxxxxxxxxxxxxxxxxxxxxxx": "is a placeholder", "[token of the clients]": "is a placeholder", "my-placeholder-token-1": "is a placeholder",
		"secret": "is shorter than 16 characters", "123456789012345": "is shorter than 16 characters", "t": "is shorter than 16 characters",
		"aaaaaaaaaaaaaaaaaaaa": "repeats a few characters", "1212121212121212121212": "repeats a few characters",
		"1234567890123456": "", "GYyTszHzLoNSj5Mjn5Ny1dRVVkLBSGYW": "", "4f1c1e9a0c3d4b5f": "", "correct horse battery staple": "",
		"eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiJ4In0.xxxxxxxxxxxxxxxxx": "",
	} {
		if got := Weakness(token); got != want {
			t.Errorf("%q %s, want %q", token, got, want)
		}
	}
}

// TestTokensKnowWhereTheyAreFrom: the refusal of one that can be guessed names its line.
func TestTokensKnowWhereTheyAreFrom(t *testing.T) {
	file := filepath.Join(t.TempDir(), "rep.yaml")
	if err := os.WriteFile(file, []byte("auth:\n  tokens:\n    - a\n    - REPLACE\n  named_tokens:\n    ci: b\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	cfg, err := Sources{File: file}.Read()
	if want := map[string]string{"auth.tokens[0]": file + ":3", "auth.tokens[1]": file + ":4", "auth.named_tokens.ci": file + ":6"}; err != nil || !maps.Equal(cfg.Auth.From, want) {
		t.Errorf("%v (%v), want %v", cfg.Auth.From, err, want)
	}
	cfg, err = Sources{Environ: []string{"DRAGOMAN_AUTH_TOKENS=a,b"}}.Read()
	if err != nil || cfg.Auth.From["auth.tokens[1]"] != "DRAGOMAN_AUTH_TOKENS" {
		t.Errorf("%v (%v)", cfg.Auth.From, err)
	}
}
