//go:build unix

package command

import (
	"context"
	"errors"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coreos/go-systemd/v22/daemon"
	"go.uber.org/zap"

	"github.com/dragoman-proxy/dragoman/proxy/tests/peertest"
)

// serviceManager is a socket as service managers have it. next returns the next state that a process sends, but not the signs of life.
func serviceManager(t *testing.T) (socket string, next func() string, lives *atomic.Int64) {
	t.Helper()
	dir, err := os.MkdirTemp("", "manager") // a socket's path must be short
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	socket = filepath.Join(dir, "notify")
	c, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: socket, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	lives = new(atomic.Int64)
	states := make(chan string, 100)
	go func() {
		b := make([]byte, 4096)
		for {
			n, err := c.Read(b)
			if err != nil {
				return
			}
			if state := string(b[:n]); state == "WATCHDOG=1" {
				lives.Add(1)
			} else {
				states <- state
			}
		}
	}()
	return socket, func() string {
		t.Helper()
		select {
		case state := <-states:
			return state
		case <-time.After(patience):
			t.Fatal("the manager was told nothing")
			return ""
		}
	}, lives
}

// TestServeTellsItsServiceManager checks what the manager is told in the life of a process, with and without a listener of its own for
// probes.
func TestServeTellsItsServiceManager(t *testing.T) {
	needsHangup(t)
	t.Parallel()
	cert, key := selfSigned(t)
	for name, more := range map[string]string{
		"probes":    "admin: {listen: 127.0.0.1:0}",
		"no probes": `admin: {listen: ""}`,
		"TLS":       "admin: {listen: \"\"}\ntls: {cert: CERT, key: KEY}",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			socket, next, lives := serviceManager(t)
			dir := t.TempDir()
			file := filepath.Join(dir, "c.yaml")
			write(t, filepath.Join(dir, "cert.pem"), cert)
			write(t, filepath.Join(dir, "key.pem"), key)
			more := strings.NewReplacer("CERT", filepath.Join(dir, "cert.pem"), "KEY", filepath.Join(dir, "key.pem")).Replace(more)
			write(t, file, "listen: 127.0.0.1:0\n"+more+"\nupstream: {command: [cat]}")
			p := startProcess(t, func(cmd *exec.Cmd) {
				cmd.Env = append(cmd.Env[:len(cmd.Env)-1], "NOTIFY_SOCKET="+socket, "WATCHDOG_USEC=100000")
			}, "serve", "--config", file)
			if got := next(); got != "READY=1" {
				t.Fatalf("first it says %q", got)
			}
			p.runs(t)
			peertest.Eventually(t, "it lives", func() bool { return lives.Load() > 2 })
			before := monotonic(t)
			p.signal(t, syscall.SIGHUP)
			got := next()
			first, second, _ := strings.Cut(got, "\n")
			at, err := strconv.ParseInt(strings.TrimSpace(strings.TrimPrefix(second, "MONOTONIC_USEC=")), 10, 64)
			if first != "RELOADING=1" || err != nil || at < before || at > monotonic(t) {
				t.Errorf("at SIGHUP it says %q", got)
			}
			if got := next(); got != "READY=1" {
				t.Errorf("after the reload it says %q", got)
			}
			p.signal(t, syscall.SIGTERM)
			if got := next(); got != "STOPPING=1" {
				t.Errorf("at its end it says %q", got)
			}
			p.endsInOrder(t)
		})
	}
}

func monotonic(t *testing.T) int64 {
	t.Helper()
	at, err := strconv.ParseInt(strings.TrimSpace(strings.TrimPrefix(daemon.SdNotifyMonotonicUsec(), "MONOTONIC_USEC=")), 10, 64)
	if err != nil {
		t.Skip("no monotonic clock here: ", err)
	}
	return at
}

// TestTheManagerIsToldOfLifeOnlyWhileItIs checks that nothing is said while the listener does not answer.
func TestTheManagerIsToldOfLifeOnlyWhileItIs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		said := make(chan string, 100)
		m := newManager(zap.NewNop(), func(state string) error {
			said <- state
			return errors.New("which is only logged")
		})
		var dead atomic.Bool
		stop := m.watch(30*time.Second, func(ctx context.Context) bool {
			if dead.Load() {
				<-ctx.Done()
			}
			return ctx.Err() == nil
		})
		time.Sleep(time.Minute + time.Second)
		if n := len(said); n != 4 {
			t.Errorf("told %d times in a minute", n)
		}
		dead.Store(true)
		time.Sleep(time.Minute)
		if n := len(said); n != 4 {
			t.Errorf("told %d times while it does not answer", n-4)
		}
		stop()
		m.close()
		for range 4 {
			<-said
		}
		if got := <-said; got != "STOPPING=1" {
			t.Errorf("at last: %q", got)
		}
	})
}

// TestAnAnswerIsASignOfLife checks that a listener which accepts connections and says nothing does not count as alive.
func TestAnAnswerIsASignOfLife(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	accepted := make(chan net.Conn, 1)
	go func() {
		c, err := ln.Accept()
		if err == nil {
			accepted <- c
		}
	}()
	ctx, stop := context.WithCancel(t.Context())
	go func() {
		defer stop()
		c := <-accepted
		t.Cleanup(func() { c.Close() })
		_, _ = c.Read(make([]byte, 1)) // the request has come
	}()
	if answers("http", ln.Addr())(ctx) {
		t.Error("silence counts as an answer")
	}
	ln.Close()
	if answers("http", ln.Addr())(t.Context()) {
		t.Error("a closed listener counts as alive")
	}
}

// TestAManagerWhoDoesNotReadHoldsNothingUp checks that states are dropped when the manager reads none, and that the end comes.
func TestAManagerWhoDoesNotReadHoldsNothingUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		reads := make(chan struct{})
		m := newManager(zap.NewNop(), func(string) error {
			<-reads
			return nil
		})
		m.ready()
		for range 10 * maxStates {
			m.reloading()
			m.reloaded()
		}
		began := time.Now()
		m.close()
		if took := time.Since(began); took != lastWords {
			t.Errorf("the end waited %v", took)
		}
		close(reads)
	})
}
