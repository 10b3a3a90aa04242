//go:build unix

package adapterrt

import (
	"context"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/dragoman-proxy/dragoman/adapterrt/file"
)

// tokenCommand writes a program that counts its runs in a file in the same directory.
func tokenCommand(t *testing.T, script string) (command []string, runs func() int) {
	t.Helper()
	dir := t.TempDir()
	path := filepath.Join(dir, "token")
	if err := os.WriteFile(path, []byte("#!/bin/sh\necho >> "+dir+"/runs\n"+script+"\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	return []string{path, "an argument"}, func() int {
		b, _ := os.ReadFile(dir + "/runs")
		return len(b)
	}
}

// bearer starts an API that accepts every token but the refused one.
func bearer(t *testing.T, refused *atomic.Value) string {
	return api(t, func(w http.ResponseWriter, r *http.Request) {
		if v, _ := refused.Load().(string); r.Header.Get("Authorization") == "" || v == r.Header.Get("Authorization") {
			w.WriteHeader(401)
			return
		}
		say(200, "application/json", `"`+r.Header.Get("Authorization")+`"`)(w, r)
	}).URL
}

const bearerAuth = "auth: {type: bearer, token_env: NOT_USED}"

// TestTokensOfACommand shows that the tokens of a command are kept until they expire, in each form of output.
func TestTokensOfACommand(t *testing.T) {
	for script, life := range map[string]time.Duration{
		`echo token-$2of$1; echo 600`: 10 * time.Minute,
		`echo token-$2of$1`:           5 * time.Minute,
		`echo '{"access_token":"token-of", "expires_in": "600"}' | sed "s/of/of$1/"`:            10 * time.Minute,
		`echo '{"token":"token-of","expires_at":"2026-01-02T03:14:05Z"}' | sed "s/of/of$1/"`:    10 * time.Minute,
		`printf 'token-of%s\n2026-01-02T03:14:05Z\n' "$1"`:                                      10 * time.Minute,
		`[ -n "$SECRET" ] && exit 1; [ -z "$PATH" ] && exit 1; echo token-of$1; echo 600; true`: 10 * time.Minute,
	} {
		t.Setenv("SECRET", "s")
		command, runs := tokenCommand(t, script)
		ck := &clock{at: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)}
		var refused atomic.Value
		rt := one(t, Options{TokenCommands: map[string][]string{"test-api": command}, Now: ck.now}, bearer(t, &refused), status, bearerAuth)
		var calls sync.WaitGroup
		for range 8 {
			calls.Go(func() {
				if got := askStatus(rt); !strings.Contains(got, `"Bearer token-ofan argument"`) {
					t.Errorf("%s: %s", script, got)
				}
			})
		}
		calls.Wait()
		if n := runs(); n != 1 {
			t.Errorf("%s: %d runs for the first calls", script, n)
		}
		ck.pass(life - 31*time.Second)
		askStatus(rt)
		if n := runs(); n != 1 {
			t.Errorf("%s: %d runs before the end", script, n)
		}
		ck.pass(30 * time.Second)
		askStatus(rt)
		if n := runs(); n != 2 {
			t.Errorf("%s: %d runs at the end", script, n)
		}
		refused.Store("Bearer token-ofan argument")
		askStatus(rt)
		if n := runs(); n != 3 {
			t.Errorf("%s: %d runs after a refusal", script, n)
		}
	}
}

// TestCommandsThatFail shows that the cause of a failed command is only for the log, and does not contain what the
// command printed on stdout.
func TestCommandsThatFail(t *testing.T) {
	for script, want := range map[string]string{
		`echo s3cr3t; echo 'not logged in: s3cr3t' >&2; exit 3`: "exit status 3: \"not logged in: ",
		`true`:                                  "it printed no token",
		`printf 'a\001b'`:                       "the token contains control characters",
		`echo token; echo soon`:                 "neither a number of seconds",
		`echo token; echo 2020-01-01T00:00:00Z`: "expired already",
		`head -c 2000000 /dev/zero`:             "more than 1048576 bytes",
		`head -c 40000 /dev/zero | tr '\0' x`:   "more than 32768 bytes",
	} {
		command, _ := tokenCommand(t, script)
		var refused atomic.Value
		rt := one(t, Options{TokenCommands: map[string][]string{"test-api": command}}, bearer(t, &refused), status, bearerAuth)
		r := rt.Dispatch(context.Background(), Endpoint{}, &Request{Body: []byte(`{"operation":"get_status"}`)})
		if got := string(r.JSON()); !strings.Contains(got, `"AUTH_TOKEN_FAILED"`) || strings.Contains(got, "token\"") {
			t.Errorf("%s: %s", script, got)
		}
		if cause := r.Call.Cause; cause == nil || !strings.Contains(cause.Error(), want) || strings.Contains(cause.Error(), "s3cr3t") {
			t.Errorf("%s: %v", script, cause)
		}
	}
	rt := one(t, Options{TokenCommands: map[string][]string{"test-api": {"/no/such/program"}}}, "https://api.example.com", status, bearerAuth)
	if got := askStatus(rt); !strings.Contains(got, `"AUTH_TOKEN_FAILED"`) {
		t.Error(got)
	}
	for _, auth := range []string{"auth: {type: none}", "auth: {type: basic, username_env: A, password_env: B}", "auth: {type: api_key, in: query, query_name: q, key_env: A}"} {
		rt, err := New(Options{TokenCommands: map[string][]string{"test-api": {"true"}}})
		if err != nil {
			t.Fatal(err)
		}
		_, paths := write(t, map[string]string{"test-api-adapter.md": front("https://api.example.com", status, auth)})
		if problems, err := rt.Load(paths); err == nil || problems[len(problems)-1].Code != file.AuthConfigInvalid {
			t.Errorf("%s: %v, %v", auth, problems, err)
		}
	}
}

// TestNamedPipesAreNotWaitedFor shows that the runtime does not open named pipes, which would block the call or the
// start.
func TestNamedPipesAreNotWaitedFor(t *testing.T) {
	pipe := filepath.Join(t.TempDir(), "test-api-adapter.md")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	rt := one(t, Options{}, "https://api.example.com", status, "auth: {type: bearer, token_file: "+pipe+"}")
	if got := askStatus(rt); !strings.Contains(got, `"AUTH_CREDENTIAL_MISSING"`) {
		t.Error(got)
	}
	if problems, err := rt.Load([]string{pipe}); err == nil || !strings.Contains(problems[0].Message, "not a regular file") {
		t.Error(problems, err)
	}
}
