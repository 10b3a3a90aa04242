package comingfrom

import (
	"math/rand/v2"
	"strings"
	"testing"
)

// TestHostileLines: any words are a line or an error.
func TestHostileLines(t *testing.T) {
	odd := []string{"", "-", "--", "---", "=", "-=", "--=", "--no-", "--no-=x", "-e", "-e=", "--x=", "--header", ":", "a:", ":b", "{}", "{ms}", "$1", "https://x.example/mcp", "ftp://", "http://[", "0", "-1", "NaN", "1e999", "99999999999999999999", "\x00", "\xff", "true", "false", "npx -y 'srv", `"`, "a b", "\n", "--oauth", "."}
	r := rand.New(rand.NewPCG(1, 2))
	for _, name := range Names() {
		whole, err := Load(name)
		if err != nil {
			t.Fatal(err)
		}
		words := odd
		var variables []string
		for _, row := range whole.Rows {
			words = append(append(words, row.Theirs), row.Also...)
			if row.Kind == "variable" {
				variables = append(variables, row.Theirs)
			}
		}
		for range 400 {
			line := make([]string, r.IntN(9))
			for i := range line {
				line[i] = words[r.IntN(len(words))]
				if r.IntN(4) == 0 {
					line[i] += "=" + odd[r.IntN(len(odd))]
				}
			}
			value := odd[r.IntN(len(odd))]
			getenv := func(string) (string, bool) { return value, r.IntN(8) == 0 }
			func() {
				defer func() {
					if p := recover(); p != nil {
						t.Errorf("%s %q, variables %q: %v", name, line, value, p)
					}
				}()
				tool, err := Load(name, append(line, variables...)...)
				if err != nil {
					t.Fatal(err)
				}
				if l, err := tool.Translate(line, getenv); err == nil {
					_ = l.String()
				}
			}()
		}
	}
}

// TestLineShowsNoSecrets: it is on stderr, which clients keep.
func TestLineShowsNoSecrets(t *testing.T) {
	for _, line := range [][]string{
		{"mcp-remote", "https://u:canary@x.example/mcp?token=canary", "--header", "Authorization:canary"},
		{"supergateway", "--sse", "https://x.example/sse?k=canary", "--oauth2Bearer", "canary"},
		{"supergateway", "--stdio", "KEY=canary MY_KEY=canary npx srv --token canary"},
		{"mcp-proxy", "--apiKey", "canary", "--", "env", "KEY=canary", "x"},
	} {
		tool, err := Load(line[0])
		if err != nil {
			t.Fatal(err)
		}
		l, err := tool.Translate(line[1:], func(string) (string, bool) { return "", false })
		if err != nil || strings.Contains(l.String(), "canary") {
			t.Errorf("%q: %v %v", line, err, l)
		}
	}
	tool, _ := Load("supergateway")
	if _, err := tool.Translate([]string{"--stdio", " \n"}, func(string) (string, bool) { return "", false }); err == nil {
		t.Error("a blank command is a server")
	}
}
