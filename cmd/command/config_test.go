package command

import (
	"bytes"
	"path/filepath"
	"strings"
	"testing"

	"github.com/dragoman-proxy/dragoman/deploy"
)

func TestConfigPrint(t *testing.T) {
	file := filepath.Join(t.TempDir(), "c.yaml")
	write(t, file, "session: {max: 7}\nauth: {tokens: [canary-canary]}\n")
	out, _, err := run(t.Context(), "", "config", "print", "--set", "--config", file, "--max-tokens", "300", "--header", "X-Key: canary-canary", "--pass-env", "A", "-e", "KEY=canary-canary", "--", "srv", "--api-key", "canary-canary")
	if err != nil {
		t.Fatal(err)
	}
	rows := map[string]string{}
	for line := range strings.Lines(out) {
		parts := strings.Fields(line)
		rows[parts[0]] = strings.Join(parts[1:], " ")
	}
	for path, want := range map[string]string{
		"session.max":                  file + ":1 7",
		"auth.tokens":                  file + ":2 [[set, 13 characters, 72e8]]",
		"upstream.headers.X-Key":       "--header [set, 13 characters, 72e8]",
		"upstream.command":             "command line [srv, --api-key, [set, 13 characters, 72e8]]",
		"upstream.env.KEY":             "--env [set, 13 characters, 72e8]",
		"transform.default_max_tokens": "--max-tokens 300",
	} {
		if rows[path] != want {
			t.Errorf("%s: got %q, want %q", path, rows[path], want)
		}
	}
	if !strings.HasPrefix(rows["upstream.pass_env"], "--pass-env [PATH, ") || rows["listen"] != "" || strings.Contains(out, "canary") {
		t.Error(out)
	}
	out, _, err = run(t.Context(), "", "config", "print")
	if err != nil || !strings.Contains(out, "listen ") || strings.Count(out, "\n") < 100 {
		t.Errorf("%v\n%s", err, out)
	}
	write(t, file, "sesion: {max: 7}\n")
	if _, _, err = run(t.Context(), "", "config", "print", "--config", file); exitCode(err) != exitUsage || !strings.Contains(err.Error(), "did you mean session?") {
		t.Error(err)
	}
}

func TestConfigSchema(t *testing.T) {
	out, _, err := run(t.Context(), "", "config", "schema")
	if err != nil || !bytes.Equal([]byte(out), deploy.ConfigSchema) || !strings.Contains(out, "https://json-schema.org/draft/2020-12/schema") {
		t.Errorf("%v: %.300s", err, out)
	}
}
