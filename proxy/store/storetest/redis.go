package storetest

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/dragoman-proxy/dragoman/proxy/tests/peertest"
	"github.com/dragoman-proxy/dragoman/proxy/tests/peertest/testset"
)

// Redis is a redis-server of a test's own.
type Redis struct {
	Address string // host:port
	Socket  string // the path of its socket
	Config  []string

	t        testing.TB
	dir      string
	sentinel string // the configuration of a Sentinel; "" if this is none
	process  *exec.Cmd
	ended    chan struct{} // closed when process has ended
}

// StartRedis starts a server with these settings, such as "maxmemory 4mb", and ends it with the test. The test is skipped
// where redis-server is not installed, and in runs that do not play the tests with Redis.
func StartRedis(t testing.TB, config ...string) *Redis {
	t.Helper()
	return start(t, "", config)
}

// StartSentinel starts a Sentinel that watches the server at address under this name.
func StartSentinel(t testing.TB, name, address string) *Redis {
	t.Helper()
	host, port, _ := net.SplitHostPort(address)
	return start(t, fmt.Sprintf("sentinel monitor %s %s %s 1\nsentinel down-after-milliseconds %s 1000\nsentinel failover-timeout %s 3000", name, host, port, name, name), nil)
}

func start(t testing.TB, sentinel string, config []string) *Redis {
	t.Helper()
	testset.Need(t, testset.Redis, "redis-server")
	dir, err := os.MkdirTemp("", "store") // the path of a socket is short
	if err != nil {
		t.Fatal(err)
	}
	r := &Redis{t: t, dir: dir, Socket: filepath.Join(dir, "s"), Config: config, sentinel: sentinel}
	t.Cleanup(func() {
		r.Stop()
		os.RemoveAll(dir)
	})
	for range 20 { // another process may have the port, or that of the cluster bus, which is 10,000 more
		r.Address = peertest.Port(t)
		if r.launch() {
			return r
		}
		r.Stop()
	}
	t.Fatal("redis-server ends at once, on each of 20 ports")
	return nil
}

// Start starts the server again, without what it had.
func (r *Redis) Start() {
	r.t.Helper()
	if !r.launch() {
		r.t.Fatalf("redis-server ends at once: is %s taken?", r.Address)
	}
}

// launch starts the server and reports whether it listens; if not, its process has ended.
func (r *Redis) launch() bool {
	r.t.Helper()
	host, port, _ := net.SplitHostPort(r.Address)
	args := []string{"--bind", host, "--port", port, "--unixsocket", r.Socket, "--save", "", "--appendonly", "no", "--dir", r.dir, "--loglevel", "warning"}
	for _, c := range r.Config {
		name, value, _ := strings.Cut(c, " ")
		args = append(args, "--"+name, value)
	}
	if r.sentinel != "" {
		file := filepath.Join(r.dir, "sentinel.conf")
		text := r.sentinel + "\nport " + port + "\nbind " + host + "\nunixsocket " + r.Socket + "\ndir " + r.dir + "\n"
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			r.t.Fatal(err)
		}
		args = []string{file, "--sentinel"}
	}
	r.process = exec.Command("redis-server", args...)
	said, err := r.process.StdoutPipe()
	if err != nil {
		r.t.Fatal(err)
	}
	if err := r.process.Start(); err != nil {
		r.t.Fatal(err)
	}
	r.ended = make(chan struct{})
	go func(process *exec.Cmd, ended chan struct{}) {
		defer close(ended)
		_, _ = io.Copy(io.Discard, said)
		_ = process.Wait()
	}(r.process, r.ended)
	for deadline := time.Now().Add(peertest.Patience); ; time.Sleep(5 * time.Millisecond) {
		conn, err := net.Dial("unix", r.Socket)
		if err == nil {
			conn.Close()
			return true
		}
		select {
		case <-r.ended:
			return false
		default:
		}
		if time.Now().After(deadline) {
			r.t.Fatalf("redis-server does not listen: %v", err)
		}
	}
}

// Stop ends the server, which loses what it had.
func (r *Redis) Stop() {
	if r.process != nil {
		r.Continue()
		_ = r.process.Process.Kill()
		<-r.ended
		r.process = nil
		os.Remove(r.Socket)
	}
}

// Pid returns the number of the server's process.
func (r *Redis) Pid() int { return r.process.Process.Pid }

// Ask sends commands as a line of text each and returns the last answer's first line.
func (r *Redis) Ask(commands ...string) string {
	r.t.Helper()
	answer, err := r.TryAsk(commands...)
	if err != nil {
		r.t.Fatal(err)
	}
	return answer
}

// TryAsk is Ask for a server that may close the connection before it answers.
func (r *Redis) TryAsk(commands ...string) (string, error) {
	conn, err := net.Dial("unix", r.Socket)
	if err != nil {
		return "", err
	}
	defer conn.Close()
	answers, last := bufio.NewReader(conn), ""
	for _, c := range commands {
		fmt.Fprintf(conn, "%s\r\n", c)
		if last, err = answers.ReadString('\n'); err != nil {
			return "", err
		}
	}
	return strings.TrimSpace(last), nil
}
