package oauth

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/zalando/go-keyring"
	"go.uber.org/zap"

	"github.com/dragoman-proxy/dragoman/proxy/auth/oauth/oauthtest"
)

// soak makes the tests with several processes as long as the acceptance of the design wants, or as
// long as DRAGOMAN_OAUTH_SOAK says.
func soak(t *testing.T, short, long int) int {
	t.Helper()
	if os.Getenv("DRAGOMAN_OAUTH_SOAK") != "" {
		return long
	}
	return short
}

// callAsProcess is a process with ten callers in parallel. It prints each failure on a line of its own, and
// "ready" after the first call.
func callAsProcess(dir string) {
	keyring.MockInitWithError(errors.New("none"))
	server := os.Getenv("OAUTH_TEST_SERVER")
	until, _ := time.ParseDuration(os.Getenv("OAUTH_TEST_FOR"))
	pause, _ := time.ParseDuration(os.Getenv("OAUTH_TEST_PAUSE"))
	a, err := NewAccount(Config{Server: server}, New(dir, Auto, zap.NewNop()), zap.NewNop())
	if err != nil {
		fmt.Println(err)
		return
	}
	end := time.Now().Add(until)
	var ready sync.Once
	var all sync.WaitGroup
	for range 10 {
		all.Go(func() {
			for time.Now().Before(end) {
				if status, err := callOnce(a, server); status != http.StatusOK {
					fmt.Println("failed:", status, err)
				}
				ready.Do(func() { fmt.Println("ready") })
				time.Sleep(pause)
			}
		})
	}
	all.Wait()
}

// callOnce sends a request as the transport does.
func callOnce(a *Account, server string) (int, error) {
	ctx := context.Background()
	for tries := 0; ; tries++ {
		value, err := a.Header(ctx)
		if err != nil {
			return 0, err
		}
		r, _ := http.NewRequest(http.MethodPost, server, strings.NewReader(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"echo"}}`))
		if value != "" {
			r.Header.Set("Authorization", value)
		}
		resp, err := http.DefaultClient.Do(r)
		if err != nil {
			return 0, err
		}
		resp.Body.Close()
		if resp.StatusCode == http.StatusOK {
			return resp.StatusCode, nil
		}
		if err := a.Refused(ctx, value, Refusal{resp.StatusCode, resp.Header.Values("WWW-Authenticate"), tries}); err != nil {
			return resp.StatusCode, err
		}
	}
}

func caller(t *testing.T, s *oauthtest.Server, dir string, until, pause time.Duration) *exec.Cmd {
	cmd := beside(t, "call", dir)
	cmd.Env = append(cmd.Env, "OAUTH_TEST_SERVER="+s.URL, "OAUTH_TEST_FOR="+until.String(), "OAUTH_TEST_PAUSE="+pause.String())
	return cmd
}

// TestProcessesShareTokens: five processes with ten callers each, over tokens that expire again and again, in front
// of an authorization server that ends the sign-in when a refresh token comes twice.
func TestProcessesShareTokens(t *testing.T) {
	t.Parallel() // it waits most of the time
	expiries := soak(t, 3, 20)
	const life = 4 * time.Second // a renewed token must not end while its call waits for a processor
	s, dir := oauthtest.New(t, oauthtest.Options{TokenLife: life}), t.TempDir()
	if err := accountOf(t, s, dir, nil).SignIn(t.Context(), agreeing{s}); err != nil {
		t.Fatal(err)
	}
	lasts := time.Duration(expiries) * life
	began := time.Now()
	var all sync.WaitGroup
	for range 5 {
		cmd := caller(t, s, dir, lasts, 50*time.Millisecond)
		all.Go(func() {
			out, err := cmd.Output()
			if failed := strings.TrimSpace(strings.ReplaceAll(string(out), "ready", "")); failed != "" || err != nil {
				t.Errorf("%v\n%.2000s", err, failed)
			}
		})
	}
	all.Wait()
	c := s.Counts()
	// A token is renewed a tenth of its life before its end: there are a few more than expiries. Processes that begin late end late.
	if most := int(time.Since(began)/(life*9/10)) + 2; c.Authorizations != 1 || c.Refreshes < expiries-1 || c.Refreshes > most {
		t.Errorf("%+v for %d expiries", c, expiries)
	}
	t.Logf("%d expiries: %d calls, %d refreshes, %d requests refused", expiries, c.Calls, c.Refreshes, c.Unauthorized)
}

// TestKilledWhileRefreshing: processes that are killed at any moment of a refresh leave a store that can be read. A
// person has to sign in again only if the authorization server had the request, whose answer was lost with the process.
func TestKilledWhileRefreshing(t *testing.T) {
	kills := soak(t, 12, 100)
	s, dir := oauthtest.New(t, oauthtest.Options{}), t.TempDir()
	a := accountOf(t, s, dir, nil)
	sent, lost := 0, 0
	if err := a.SignIn(t.Context(), agreeing{s}); err != nil {
		t.Fatal(err)
	}
	for range kills {
		cmd := caller(t, s, dir, time.Minute, 0)
		out, _ := cmd.StdoutPipe()
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		bufio.NewReader(out).ReadString('\n') // it calls
		before := s.Counts().Refreshes
		s.RevokeAccess() // so that it refreshes
		time.Sleep(time.Duration(rand.IntN(12_000)) * time.Microsecond)
		cmd.Process.Kill()
		cmd.Wait()
		var r record
		var broken error
		if err := a.store.Locked(t.Context(), a.id, func(e Entry) { r, broken = load(e) }); err != nil || broken != nil || r.Refresh == "" {
			t.Fatal("the store is broken:", err, broken)
		}
		if r.Sent {
			sent++
		}
		if _, err := callOnce(accountOf(t, s, dir, nil), s.URL); err != nil {
			if lost++; s.Counts().Refreshes < before+2 { // that of the process, and its repetition
				t.Fatal("a sign-in is needed, and no answer was lost:", err)
			}
			if err := a.SignIn(t.Context(), agreeing{s}); err != nil {
				t.Fatal(err)
			}
		}
	}
	t.Logf("%d kills, %d of them while an answer was awaited; %d sign-ins again, all after an answer of the authorization server that was lost", kills, sent, lost)
}
