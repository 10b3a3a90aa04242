package config

import (
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/dragoman-proxy/dragoman/proxy/config/setting"
)

func TestHeadersOfAFile(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, text string
		want       map[string]string
		mistakes   []string
	}{
		{"two, with comments", "\ufeff# of the gateway\r\nAuthorization:  Bearer a:b \r\n\r\n\t# more\nx-team:red\n", map[string]string{"Authorization": "Bearer a:b", "x-team": "red"}, nil},
		{"without a line end", "X-Team: red", map[string]string{"Accept-Language": "en", "X-Team": "red"}, nil},
		{"one of the configuration, in other letters", "accept-language: de\n", map[string]string{"accept-language": "de"}, nil},
		{"a variable", "Authorization: Bearer ${SECRET}\n", map[string]string{"Accept-Language": "en", "Authorization": "Bearer canary-s"}, nil},
		{"a variable that is not set", "A: b\nAuthorization: Bearer ${NONE}\n", nil, []string{"FILE:2: upstream.headers.Authorization: environment variable NONE is not set"}},
		{"empty", "", nil, []string{"upstream.header_file: FILE holds no header"}},
		{"comments alone", "# A: b\n", nil, []string{"upstream.header_file: FILE holds no header"}},
		{"half a line", "A: b\nAuthorization", nil, []string{"FILE:2: expected 'Name: value'"}},
		{"half a value", "Authorization: Bearer \n", nil, []string{`upstream.headers.Authorization: "Bearer" has no token`}},
		{"no value", "A: b\nAuthorization:", nil, []string{"FILE:2: Authorization has no value"}},
		{"no name", ": canary\n", nil, []string{"FILE:1: expected 'Name: value'"}},
		{"a secret in place of the header", "canary word: x\nBearer canary\n", nil, []string{"FILE:1: expected 'Name: value'", "FILE:2: expected 'Name: value'"}},
		{"a control character", "A: canary\x00\n", nil, []string{"FILE:1: expected 'Name: value'"}},
		{"twice", "A: b\na: canary\n", nil, []string{"FILE:2: a is there twice, first at FILE:1"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			at := filepath.Join(t.TempDir(), "headers")
			if err := os.WriteFile(at, []byte(c.text), 0o600); err != nil {
				t.Fatal(err)
			}
			environ := []string{"SECRET=canary-s", "DRAGOMAN_UPSTREAM_URL=http://127.0.0.1/mcp", "DRAGOMAN_UPSTREAM_HEADERS={Accept-Language: en}"}
			if c.name == "two, with comments" {
				environ = environ[:2]
			}
			cfg, err := Sources{Environ: append(environ, "DRAGOMAN_UPSTREAM_HEADER_FILE="+at)}.Read()
			if c.mistakes == nil {
				if err != nil || !maps.Equal(cfg.Upstream.Headers, c.want) || cfg.Upstream.HeadersFrom != at {
					t.Errorf("%v from %s, %v", cfg.Upstream.Headers, cfg.Upstream.HeadersFrom, err)
				}
				return
			}
			if err == nil || strings.Contains(err.Error(), "canary") {
				t.Fatalf("%v, want %s", err, c.mistakes)
			}
			for _, want := range c.mistakes {
				if want = strings.ReplaceAll(want, "FILE", at); !strings.Contains(err.Error(), want) {
					t.Errorf("%v, want %s", err, want)
				}
			}
		})
	}
}

// TestAHeaderFileFromEachPlace checks which of two files is read, that a flag's headers replace those of the file, and that
// the file is one that is watched and one with secrets.
func TestAHeaderFileFromEachPlace(t *testing.T) {
	t.Parallel()
	home := t.TempDir()
	for name, text := range map[string]string{"a": "X-A: file-canary\nX-B: of-a", "b": "X-A: of-b"} {
		if err := os.WriteFile(filepath.Join(home, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	s := Sources{
		Environ: []string{"HOME=" + home, "DRAGOMAN_UPSTREAM_URL=http://127.0.0.1/mcp", "DRAGOMAN_UPSTREAM_HEADER_FILE=~/b"},
		Flags:   func(c *Config, l *setting.Layers) { c.Upstream.SetHeader("x-b", "of-flag") },
	}
	if c, err := s.Read(); err != nil || !maps.Equal(c.Upstream.Headers, map[string]string{"X-A": "of-b", "x-b": "of-flag"}) {
		t.Errorf("%v, %v", c.Upstream.Headers, err)
	}
	s.Headers = filepath.Join(home, "a")
	c, err := s.Read()
	if err != nil || !maps.Equal(c.Upstream.Headers, map[string]string{"X-A": "file-canary", "x-b": "of-flag"}) {
		t.Errorf("%v, %v", c.Upstream.Headers, err)
	}
	if files := c.Files(); len(files) != 1 || files[0] != s.Headers || len(c.SecretFiles()) != 1 {
		t.Errorf("watched %v, secret %v", files, c.SecretFiles())
	}
	values, err := s.Effective()
	for _, v := range values {
		if v.Path == "upstream.headers.X-A" && v.Origin != s.Headers+":1" || strings.Contains(v.Text, "canary") {
			t.Errorf("shown %+v, %v", v, err)
		}
	}
	s.Headers = filepath.Join(home, "none")
	if _, err := s.Read(); err == nil || !strings.Contains(err.Error(), "upstream.header_file: open "+s.Headers) {
		t.Errorf("a file that is not there: %v", err)
	}
	s.Headers = filepath.Join(home, "a")
	s.Environ = append(s.Environ[:1], "DRAGOMAN_UPSTREAM_COMMAND=[cat]")
	if _, err := s.Read(); err == nil || !strings.Contains(err.Error(), "upstream.header_file: applies only to upstream.url") {
		t.Errorf("of a command: %v", err)
	}
}
