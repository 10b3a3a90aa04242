package peertest

import (
	"flag"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"sync"
	"testing"
	"time"
)

// Patience is how long a test waits for what must come, also on a machine with many other things to do.
const Patience = time.Minute

// NoListener is an address that refuses connections. A port that was free a moment ago may be another test's by now.
const NoListener = "127.0.0.1:1"

// Eventually waits until another goroutine has made the condition true.
func Eventually(t testing.TB, what string, is func() bool) {
	t.Helper()
	for end := time.Now().Add(Patience); !is(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("never: %s", what)
		}
	}
}

// Within tries with a limit of time, which doubles until try returns nil: what must happen before the limit ends may take longer on a
// machine with many other things to do.
func Within(t testing.TB, limit time.Duration, try func(limit time.Duration) error) {
	t.Helper()
	for ; ; limit *= 2 {
		if err := try(limit); err == nil {
			return
		} else if limit > Patience/4 {
			t.Fatalf("with a limit of %s: %v", limit, err)
		}
	}
}

// WaitTogether lets more parallel tests of a package run beside each other than there are processors, because most of the time they wait.
// TestMain calls it. The flag -parallel prevails.
func WaitTogether() {
	flag.Parse()
	chosen := false
	flag.Visit(func(f *flag.Flag) { chosen = chosen || f.Name == "test.parallel" })
	if !chosen {
		_ = flag.Set("test.parallel", "8") // it is a number
	}
}

// NoLeaks fails the test if, after it and what it cleans up later, there are more goroutines than now.
func NoLeaks(t *testing.T) {
	t.Helper()
	before := runtime.NumGoroutine()
	t.Cleanup(func() {
		if left := goroutinesBeyond(before); left != "" {
			t.Fatal(left)
		}
	})
}

// GoroutinesFallTo waits until there are no more goroutines than before. If that does not come, it prints them and returns false.
func GoroutinesFallTo(before int) bool {
	left := goroutinesBeyond(before)
	if left != "" {
		fmt.Fprintln(os.Stderr, left)
	}
	return left == ""
}

// goroutinesBeyond waits until there are no more goroutines than before, and returns "", or describes them if that does not come.
func goroutinesBeyond(before int) string {
	for end := time.Now().Add(Patience); runtime.NumGoroutine() > before; time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			stacks := make([]byte, 1<<20)
			return fmt.Sprintf("%d goroutines, %d before:\n%s", runtime.NumGoroutine(), before, stacks[:runtime.Stack(stacks, true)])
		}
	}
	return ""
}

// Endpoint is where a peer is reached: a URL, or the address of a wire.
type Endpoint struct{ URL, Wire string }

// Command is the process of t that is a server on a wire. In memory, the one that starts it connects to the address in the command.
func (e Endpoint) Command(t testing.TB) []string {
	if Dialer(t) != nil {
		return []string{"wire", e.Wire}
	}
	return []string{wireProgram(), e.Wire}
}

// wireProgram is the file of the program in testdata/wire, which connects its stdin and stdout with an address. It
// stands for a server on a pipe.
var wireProgram = sync.OnceValue(func() string {
	dir, err := os.MkdirTemp("", "dragoman-wire-")
	if err != nil {
		panic(err)
	}
	removeWire = func() { _ = os.RemoveAll(dir) }
	file := filepath.Join(dir, "wire.exe")
	build := exec.Command("go", "build", "-o", file, "github.com/dragoman-proxy/dragoman/proxy/tests/peertest/testdata/wire")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		panic(fmt.Sprintf("go build: %v\n%s", err, out))
	}
	return file
})

var removeWire = func() {}

// RemoveWire removes what Command has built, after all tests of a package.
func RemoveWire() { removeWire() }

// Accept serves each connection to a new address until the test ends.
func Accept(t *testing.T, serve func(net.Conn)) (address string) {
	t.Helper()
	ln := Listen(t)
	AcceptOn(t, ln, serve)
	return ln.Addr().String()
}

// AcceptOn is Accept for a listener of the test's, which it closes.
func AcceptOn(t *testing.T, ln net.Listener, serve func(net.Conn)) {
	t.Helper()
	var mu sync.Mutex
	var open []net.Conn
	var all sync.WaitGroup
	all.Go(func() {
		for {
			conn, err := ln.Accept()
			if err != nil {
				return
			}
			mu.Lock()
			open = append(open, conn)
			mu.Unlock()
			all.Go(func() {
				serve(conn)
				_ = conn.Close()
			})
		}
	})
	t.Cleanup(func() {
		_ = ln.Close()
		mu.Lock()
		for _, conn := range open {
			_ = conn.Close()
		}
		mu.Unlock()
		all.Wait()
	})
}
