// Soak keeps dragoman under full load with clients and servers that leave, hang
// and lie, and watches what it holds: memory, goroutines, file descriptors and
// child processes. It fails when these grow, and when a call that should work fails
// or is answered with another one's answer.
//
//	go run ./bench/soak -time 10m
//
// One dragoman is in front of an HTTP server, another starts a command for every
// session. Run it from the root of the module; it needs Linux.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"sync"
	"syscall"
	"time"

	"github.com/dragoman-proxy/dragoman/bench/compare/process"
)

const (
	// shortest has room for a sweep of idle sessions, one a minute, in each third.
	shortest   = 4 * time.Minute
	minSamples = 30
)

func main() {
	length := flag.Duration("time", 10*time.Minute, "how long")
	every := flag.Duration("every", 5*time.Second, "time between two looks")
	clients := flag.Int("clients", 16, "clients of each dragoman")
	binary := flag.String("dragoman", "", "the command to test (default: build it)")
	child := flag.Bool("child", false, "be the server on stdin and stdout")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	var err error
	switch {
	case *child:
		err = servePipe(os.Stdin, os.Stdout)
	case *length < shortest || *every <= 0 || *length/(*every) <= minSamples || *clients < 1 || flag.NArg() > 0:
		fmt.Fprintf(os.Stderr, "soak: -time must be at least %v and more than %d times -every\n", shortest, minSamples)
		flag.Usage()
		os.Exit(2)
	case runtime.GOOS != "linux":
		err = fmt.Errorf("reads /proc, which %s has not", runtime.GOOS)
	default:
		err = soak(ctx, *length, *every, *clients, *binary)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "soak:", err)
		os.Exit(1)
	}
}

// quick ends sessions that their clients left behind, and waits for servers that
// hang, soon enough for both to happen often.
func quick() []string {
	return []string{
		"DRAGOMAN_ADMIN_LISTEN=",
		"DRAGOMAN_SESSION_IDLE_TIMEOUT=3s", "DRAGOMAN_UPSTREAM_SILENCE_TIMEOUT=2s",
	}
}

func soak(ctx context.Context, length, every time.Duration, clients int, binary string) error {
	dir, err := os.MkdirTemp("", "soak")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	if binary == "" {
		if binary, err = process.Build(ctx, dir, "./cmd/proxy"); err != nil {
			return err
		}
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	server, err := startServer()
	if err != nil {
		return err
	}
	defer server.close()
	var watched []*subject
	defer func() {
		for _, s := range watched {
			s.proxy.Stop()
		}
	}()
	for _, arg := range [][]string{
		{"http", "--upstream", server.url},
		{"stdio", "--", self, "-child"},
	} {
		cmd := exec.Command(binary, append([]string{"serve", "--listen", "127.0.0.1:0"}, arg[1:]...)...)
		cmd.Env = append(os.Environ(), quick()...)
		p, err := process.Start(ctx, cmd)
		if err != nil {
			return err
		}
		watched = append(watched, &subject{name: arg[0], proxy: p})
	}
	return run(ctx, watched, length, every, clients)
}

// run loads all subjects and samples them.
func run(ctx context.Context, watched []*subject, length, every time.Duration, clients int) error {
	ctx, cancel := context.WithTimeout(ctx, length)
	defer cancel()
	var wg sync.WaitGroup
	for _, s := range watched {
		for i := range clients {
			wg.Go(func() { s.counts.visit(ctx, s.proxy.URL(), uint64(i)) })
		}
	}
	err := sample(ctx, watched, every)
	cancel()
	wg.Wait()
	if err != nil {
		return err
	}
	var errs []error
	for _, s := range watched {
		fmt.Println(s.name+":", s.counts.String())
		errs = append(errs, s.judge())
	}
	return errors.Join(errs...)
}
