package e2e

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/dragoman-proxy/dragoman/proxy/auth/oauth/oauthtest"
	"github.com/dragoman-proxy/dragoman/proxy/tests/peertest/testset"
)

// TestShimsShareALogin lets five local commands with ten callers each use one login, at an authorization server that
// ends a login if a refresh token comes twice. Two of them are killed again and again. No call may fail except with its
// process, the person logs in again only if an answer was lost with a process, and no log, error, argument or
// environment has a secret. It lasts 12 s, or as long as E2E_LOGIN_SOAK says.
func TestShimsShareALogin(t *testing.T) {
	testset.Need(t, testset.Peers)
	t.Parallel()
	lasts := 12 * time.Second
	if text := os.Getenv("E2E_LOGIN_SOAK"); text != "" {
		var err error
		if lasts, err = time.ParseDuration(text); err != nil {
			t.Fatal(err)
		}
	}
	const life = 5 * time.Second
	ctx, cancel := context.WithTimeout(t.Context(), lasts+patience)
	defer cancel()
	k := &soak{t: t, ctx: ctx, s: oauthtest.New(t, oauthtest.Options{TokenLife: life}), proxy: build(t), p: newPerson(t), end: time.Now().Add(lasts)}
	browser := make(chan struct{})
	go func() {
		defer close(browser)
		for {
			address, err := k.p.nextTab(ctx)
			if err != nil {
				return
			}
			if _, err := k.s.Visit(address); err != nil {
				t.Error(err)
			}
		}
	}()
	var all sync.WaitGroup
	for number := range 5 {
		all.Go(func() {
			for time.Now().Before(k.end) && !t.Failed() {
				until := k.end
				if number >= 3 {
					until = time.Now().Add(time.Duration(500+rand.IntN(3000)) * time.Millisecond)
				}
				k.shim(until)
			}
		})
	}
	all.Wait()
	cancel()
	<-browser
	c := k.s.Counts()
	if n := int(k.again.Load()); k.killed.Load() == 0 || k.p.tabs != 1+n || c.Codes != 1+n || c.Registrations != 1 || c.Refreshes < int(lasts/life)-2 || k.secrets.Load() != 0 {
		t.Errorf("%d killed, %d tabs, %d secrets, %+v", k.killed.Load(), k.p.tabs, k.secrets.Load(), c)
	}
	list := exec.Command(string(k.proxy), "login", "--list")
	list.Env = k.p.env
	if said, err := list.CombinedOutput(); err != nil || !strings.Contains(string(said), k.s.Issuer) {
		t.Errorf("the store: %s %v", said, err)
	}
	t.Logf("%v with tokens of %v: %d calls by %d processes, of which %d were killed, and %d calls with them; %d refreshes, %d logins after the first, which failed %d calls",
		lasts, life, k.calls.Load(), k.begun.Load(), k.killed.Load(), k.died.Load(), c.Refreshes, k.again.Load(), k.ended.Load())
}

type soak struct {
	t     *testing.T
	ctx   context.Context
	s     *oauthtest.Server
	proxy dragoman
	p     *person
	end   time.Time

	calls, died, ended, begun, killed, again, secrets atomic.Int64

	mu     sync.Mutex
	logged time.Time // when the person has logged in again
}

// shim runs a local command with ten callers until it is killed, or to the end.
func (k *soak) shim(until time.Time) {
	args := k.proxy.args("stdio", endpoint{over: streamable, url: k.s.URL}, "--log-level", "debug")
	cmd := exec.Command(args[0], args[1:]...)
	cmd.Env, cmd.Stderr = k.p.env, &secretFinder{found: &k.secrets}
	began := time.Now()
	session, err := mcp.NewClient(&mcp.Implementation{Name: "e2e", Version: "1.0.0"}, nil).Connect(k.ctx, &mcp.CommandTransport{Command: cmd, TerminateDuration: time.Second}, nil)
	if err != nil {
		k.failed(began, err)
		return
	}
	k.begun.Add(1)
	for _, file := range []string{"cmdline", "environ"} {
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/%s", cmd.Process.Pid, file))
		if err != nil || bytes.Contains(text, []byte("canary-")) {
			k.t.Errorf("%s: %q %v", file, text, err)
		}
	}
	var callers sync.WaitGroup
	for range 10 {
		callers.Go(func() {
			for time.Now().Before(until) && !k.t.Failed() {
				began := time.Now()
				r, err := session.CallTool(k.ctx, &mcp.CallToolParams{Name: "echo", Arguments: map[string]any{"text": "hello"}})
				switch {
				case err == nil && r.Content[0].(*mcp.TextContent).Text == "hello":
					k.calls.Add(1)
				case !time.Now().Before(until) && until != k.end:
					k.died.Add(1)
					return
				default:
					k.failed(began, fmt.Errorf("%+v: %w", r, err))
				}
				time.Sleep(200 * time.Millisecond)
			}
		})
	}
	if until != k.end && until.Before(k.end) {
		time.Sleep(time.Until(until))
		_ = cmd.Process.Kill()
		k.killed.Add(1)
	}
	callers.Wait()
	session.Close()
}

// failed logs in again if that is what a failed call wants, once for all calls.
func (k *soak) failed(began time.Time, err error) {
	if strings.Contains(err.Error(), "canary-") {
		k.secrets.Add(1)
	}
	if !strings.Contains(err.Error(), "run dragoman login") {
		k.t.Error(err)
		return
	}
	k.ended.Add(1)
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.logged.After(began) {
		return
	}
	k.again.Add(1)
	login := exec.CommandContext(k.ctx, string(k.proxy), "login", k.s.URL)
	login.Env = k.p.env
	if said, err := login.CombinedOutput(); err != nil {
		k.t.Errorf("%s %v", said, err)
	}
	k.logged = time.Now()
}

// secretFinder counts the secrets in what is written to it.
type secretFinder struct {
	found *atomic.Int64
	tail  []byte
}

func (w *secretFinder) Write(b []byte) (int, error) {
	const canary = "canary-"
	text := append(w.tail, b...)
	w.found.Add(int64(bytes.Count(text, []byte(canary))))
	w.tail = bytes.Clone(text[max(0, len(text)-len(canary)+1):])
	return len(b), nil
}
