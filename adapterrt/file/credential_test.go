package file

import (
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

// TestFilesOfCredentials checks that a problem names the key whose value is no path, not the variable that could stand in its place.
func TestFilesOfCredentials(t *testing.T) {
	for auth, want := range map[string]string{
		`{type: bearer, token_file: ""}`:                                                                "auth.token_file: token_file is not valid",
		`{type: bearer, token_file: [a]}`:                                                               "auth.token_file: token_file is not valid",
		`{type: basic, username_env: U, password_file: 12345}`:                                          "auth.password_file: password_file is not valid",
		`{type: bearer, token_file: null}`:                                                              "auth.token_env: token_env is required",
		`{type: bearer, token_env: "${API_TOKEN}"}`:                                                     "auth.token_env: takes the variable's name alone, without ${ }: API_TOKEN",
		`{type: bearer, token_env: "$12345"}`:                                                           "auth.token_env: takes the variable's name alone, without ${ }",
		`{type: none, also: [{type: api_key, header_name: X, key_file: {}}]}`:                           "auth.also[0].key_file: key_file is not valid",
		`{type: aws-sig4, service: s3, region: a, access_key_id_file: a, secret_access_key_file: true}`: "auth.secret_access_key_file: secret_access_key_file is not valid",
	} {
		_, problems := Parse("x-api-adapter.md", []byte("---\nname: x-api\ntype: adapter\nversion: \"1.0.0\"\ndescription: A file of a test\n"+
			"target: {base_url: \"https://api.example.com\", transport: http, protocol: rest, serialization: json}\nauth: "+auth+"\noperations: {}\n---\n"), &Options{})
		if strings.Contains(auth, "${") && len(problems) > 1 && problems[1].Severity == Error {
			t.Errorf("%s: told more than once: %v", auth, problems)
		}
		if len(problems) == 0 || !strings.Contains(problems[0].String(), want) || strings.Contains(problems[0].String(), "12345") {
			t.Errorf("%s: %v, want %s", auth, problems, want)
		}
	}
}

// TestOpenFilesOfCredentials: a file with a secret that other users can read is warned of, with the command that closes it.
func TestOpenFilesOfCredentials(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("files have no mode")
	}
	path := filepath.Join(t.TempDir(), "secret")
	write := func(mode os.FileMode) {
		if err := os.WriteFile(path, []byte("s3cr3t"), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(path, mode); err != nil {
			t.Fatal(err)
		}
	}
	parse := func(block string) (said string) {
		_, problems := Parse("x-api-adapter.md", []byte("---\nname: x-api\ntype: adapter\nversion: \"1.0.0\"\ndescription: A file of a test\n"+
			"target: {base_url: \"https://api.example.com\", transport: http, protocol: rest, serialization: json}\n"+block+"\noperations: {}\n---\n"),
			&Options{Getenv: func(string) (string, bool) { return "x", true }})
		for _, p := range problems {
			if p.Severity == Warning {
				said += p.String() + "\n"
			}
		}
		return said
	}
	for _, block := range []string{
		"auth: {type: bearer, token_file: " + path + "}",
		"auth: {type: basic, username_env: U, password_file: " + path + "}",
		"auth: {type: none, also: [{type: api_key, header_name: X, key_file: " + path + "}]}",
		"auth: {type: mtls, cert_file: " + path + ", key_file: " + path + "}",
	} {
		write(0o600)
		if said := parse(block); strings.Contains(said, "has mode") {
			t.Errorf("%s: %s", block, said)
		}
		write(0o644)
		if said := parse(block); strings.Count(said, path+" has mode 0644") != 1 || !strings.Contains(said, "chmod 600 "+path) {
			t.Errorf("%s: %q", block, said)
		}
	}
}

// TestHomeInPaths: ~ at the beginning of the path of a file is the home directory.
func TestHomeInPaths(t *testing.T) {
	a, problems := Parse("x-api-adapter.md", []byte("---\nname: x-api\ntype: adapter\nversion: \"1.0.0\"\ndescription: A file of a test\n"+
		"target: {base_url: \"https://api.example.com\", transport: http, protocol: rest, serialization: json, headers_file: {X-Key: ~/header}}\n"+
		"auth: {type: bearer, token_file: ~/token}\noperations: {}\n---\n"),
		&Options{Getenv: func(name string) (string, bool) { return map[string]string{"HOME": "/home/ann"}[name], true }})
	for _, p := range problems {
		if p.Path != "operations" && p.Severity == Error {
			t.Errorf("%v", p)
		}
	}
	if a == nil {
		t.Fatalf("%v", problems)
	}
	if got := strings.Join(a.Auth.Credentials(), " "); !strings.Contains(got, "/home/ann/token") || !strings.Contains(got, "/home/ann/header") || strings.Contains(got, "~") {
		t.Error(got)
	}
}
