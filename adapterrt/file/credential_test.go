package file

import (
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
		`{type: none, also: [{type: api_key, header_name: X, key_file: {}}]}`:                           "auth.also[0].key_file: key_file is not valid",
		`{type: aws-sig4, service: s3, region: a, access_key_id_file: a, secret_access_key_file: true}`: "auth.secret_access_key_file: secret_access_key_file is not valid",
	} {
		_, problems := Parse("x-api-adapter.md", []byte("---\nname: x-api\ntype: adapter\nversion: \"1.0.0\"\ndescription: A file of a test\n"+
			"target: {base_url: \"https://api.example.com\", transport: http, protocol: rest, serialization: json}\nauth: "+auth+"\noperations: {}\n---\n"), &Options{})
		if len(problems) == 0 || !strings.Contains(problems[0].String(), want) || strings.Contains(problems[0].String(), "12345") {
			t.Errorf("%s: %v, want %s", auth, problems, want)
		}
	}
}
