// Compare measures dragoman end to end and compares it with other ways to the same server, on
// loopback and in turns: no proxy at all, a bare fasthttp proxy,
// net/http/httputil.ReverseProxy, and nginx if it is installed.
//
//	go run ./bench/compare
//	go run ./bench/compare -rounds 20 -slice 2s
//	go run ./bench/compare -rate 2000
//
// Clients speak the oldest revision, the server the one before the latest with a handshake. After
// that, one or both speak the newest revision, which has no handshake. Every
// proxy, and the server, is a process of its own, so that its processor time and
// memory can be read. Run it from the root of the module.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"runtime"
	"syscall"
	"time"

	"github.com/dragoman-proxy/dragoman/bench/compare/process"
)

func main() {
	rounds := flag.Int("rounds", 5, "how often each way has its turn")
	slice := flag.Duration("slice", 400*time.Millisecond, "length of a turn, for each kind of call and number of connections")
	rate := flag.Int("rate", 0, "calls a second, made whether or not earlier ones have been answered, and measured from when they were due (default: each connection makes its next call when it has the answer)")
	leaves := flag.Int("leaves", 20, "how many clients leave a quiet call, for each way")
	sleepers := flag.Int("idle", 9000, "how many clients of each transport stay connected and say nothing")
	users := flag.Int("users", 1000, "how many clients without a session have something kept for them")
	only := flag.Bool("tracing", false, "measure only what traces cost")
	between := flag.Bool("eras", false, "measure only calls between revisions with and without a handshake")
	watched := flag.Bool("watching", false, "measure only what the live page and a recording cost")
	asleep := flag.Bool("sleeping", false, "measure only the memory with idle clients")
	shared := flag.Bool("store", false, "measure only what a store that replicas share costs; needs redis-server")
	binary := flag.String("dragoman", "", "the command to measure (default: build it)")
	part := flag.String("serve", "", "be one of the other processes: "+roleNames()+"; arguments: the server's URL")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	var err error
	switch {
	case *part != "":
		err = serve(ctx, *part, flag.Arg(0))
	case *rounds < 1 || *rate < 0 || *slice <= 0 || *leaves < 0 || *sleepers < 0 || *users < 0 || flag.NArg() > 0:
		flag.Usage()
		os.Exit(2)
	case runtime.GOOS != "linux":
		err = fmt.Errorf("needs /proc, which %s does not have", runtime.GOOS)
	default:
		err = compare(ctx, plan{rounds: *rounds, rate: *rate, slice: *slice, leaves: *leaves, idle: *sleepers, users: *users, tracing: *only, eras: *between, watching: *watched, storing: *shared, sleeping: *asleep, binary: *binary})
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "compare:", err)
		os.Exit(1)
	}
}

// plan says what is measured, and how long.
type plan struct {
	rounds   int
	rate     int // calls a second; 0 for a closed loop
	slice    time.Duration
	leaves   int
	idle     int
	users    int
	tracing  bool   // nothing else
	eras     bool   // nothing else
	watching bool   // nothing else
	storing  bool   // nothing else
	sleeping bool   // nothing else
	binary   string // "" to build it
}

func compare(ctx context.Context, p plan) error {
	dir, err := os.MkdirTemp("", "compare")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	if p.binary == "" {
		if p.binary, err = process.Build(ctx, dir, "./cmd/dragoman"); err != nil {
			return err
		}
	}
	l := launcher{dir: dir, dragoman: p.binary}
	if l.self, err = os.Executable(); err != nil {
		return err
	}
	if p.sleeping {
		m, err := l.measureIdle(ctx, p.idle)
		if err == nil && m != nil {
			(&report{out: os.Stdout, still: m}).print()
		}
		return err
	}
	server, err := l.role(ctx, "server", "")
	if err != nil {
		return err
	}
	defer server.Stop()
	work, err := works()
	if err != nil {
		return err
	}
	if p.tracing {
		m, err := l.measureTracing(ctx, p, server.URL(), work)
		if err == nil {
			(&report{out: os.Stdout, work: work, tracing: m}).print()
		}
		return err
	}
	if p.eras {
		m, err := l.measureEras(ctx, p, server.URL(), work)
		if err == nil {
			(&report{out: os.Stdout, work: work, eras: m}).print()
		}
		return err
	}
	if p.watching {
		m, err := l.measureWatching(ctx, p, server.URL(), work)
		if err == nil {
			(&report{out: os.Stdout, work: work, watching: m}).print()
		}
		return err
	}
	if p.storing {
		m, err := l.measureStoring(ctx, p, server.URL(), work)
		if err == nil {
			(&report{out: os.Stdout, work: work, storing: m}).print()
		}
		return err
	}
	ways, err := l.all(ctx, server.URL())
	defer stopAll(ways)
	if err != nil {
		return err
	}
	if err := readIdle(ctx, ways); err != nil {
		return err
	}
	measured, err := measure(ctx, p, ways, work)
	if err != nil {
		return err
	}
	notices, err := l.measureLeaving(ctx, p.leaves)
	if err != nil {
		return err
	}
	still, err := l.measureIdle(ctx, p.idle)
	if err != nil {
		return err
	}
	eras, err := l.measureEras(ctx, p, server.URL(), work)
	if err != nil {
		return err
	}
	tracing, err := l.measureTracing(ctx, p, server.URL(), work)
	if err != nil {
		return err
	}
	crowd, err := l.measureCrowd(ctx, p.users)
	if err != nil {
		return err
	}
	r := report{eras: eras, crowd: crowd, tracing: tracing, still: still, out: os.Stdout, ways: ways, work: work, measured: measured, notices: notices}
	r.print()
	return nil
}
