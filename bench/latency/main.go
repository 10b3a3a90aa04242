// Latency measures what dragoman adds to a call, for each pair of revisions on each kind of transport, beside other
// proxies, and at fixed rates, and writes a table and two pictures.
//
//	go run ./bench/latency -write docs/performance.md
//	go run ./bench/latency -growth -write docs/performance.md
//	go run ./bench/latency -beside -write README.md
//
// bench/README.md says what is measured. Run it from the root of the module.
package main

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"syscall"
	"time"

	"github.com/dragoman-proxy/dragoman/bench/compare/process"
	"github.com/dragoman-proxy/dragoman/translate"
)

// plan says what is measured, how long, and where the results go.
type plan struct {
	slice    time.Duration
	out      string // folder of the pictures
	write    string // file whose marked part is replaced; "" for stdout
	quick    bool
	growth   bool
	others   bool
	packages string // folder in which the packages of other proxies are kept; "" for a temporary one, "none" for none
	binary   string
}

func main() {
	var p plan
	flag.StringVar(&p.binary, "dragoman", "", "the command to measure (default: build it)")
	flag.DurationVar(&p.slice, "slice", time.Second, "how long each way is measured with each kind of call")
	flag.StringVar(&p.out, "out", "docs/images", "folder for the pictures")
	flag.StringVar(&p.write, "write", "", "file in which the table replaces what is between the markers (default: stdout)")
	flag.BoolVar(&p.quick, "quick", false, "try everything that needs no network in a few seconds; the numbers mean nothing")
	flag.BoolVar(&p.growth, "growth", false, "measure how the cost grows with tools, bytes, connections and adapters instead")
	flag.BoolVar(&p.others, "beside", false, "play the same small worlds with other proxies instead, for the table in the README: about five minutes")
	flag.StringVar(&p.packages, "packages", "", "folder for the npm packages of other proxies, kept for the next run; none to leave them out (default: a temporary one)")
	role := flag.String("serve", "", "be one of the other processes: stdio, http, sse, sessions, fasthttp; argument: the address of sessions, or the URL of the server behind fasthttp")
	revision := flag.String("revision", translate.Latest().Name, "with -serve: the revision of the server")
	tools := flag.Int("tools", 50, "with -serve: how many tools the server has: 1, 50, 500 or 5000")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	var err error
	switch {
	case *role != "":
		if translate.Lookup(*revision) == nil {
			err = fmt.Errorf("-revision: %q is no revision of the protocol", *revision)
			break
		}
		err = serveRole(ctx, *role, *revision, *tools, flag.Arg(0))
	case p.slice <= 0 || flag.NArg() > 0:
		flag.Usage()
		os.Exit(2)
	case runtime.GOOS != "linux":
		err = fmt.Errorf("needs the process clocks of Linux, which %s does not have", runtime.GOOS)
	default:
		err = p.run(ctx)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "latency:", err)
		os.Exit(1)
	}
}

func (p plan) run(ctx context.Context) error {
	dir, err := os.MkdirTemp("", "latency")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	l := launcher{dir: dir, dragoman: p.binary}
	if l.dragoman == "" {
		if l.dragoman, err = process.Build(ctx, dir, "./cmd/dragoman"); err != nil {
			return err
		}
	}
	if l.self, err = os.Executable(); err != nil {
		return err
	}
	if p.others {
		return p.beside(ctx, l)
	}
	if p.growth {
		rows, err := l.measureGrowth(ctx, growthPlan(p.quick, p.slice))
		if err != nil {
			return err
		}
		return p.put("growth", growthTable(rows))
	}
	r, err := p.measure(ctx, l)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(p.out, 0o755); err != nil {
		return err
	}
	for name, picture := range map[string][]byte{heatFile: heatMap(r.pairs), loadFile: loadChart(r.load)} {
		if err := os.WriteFile(filepath.Join(p.out, name), picture, 0o644); err != nil {
			return err
		}
	}
	return p.put("latency", r.markdown())
}

func (p plan) measure(ctx context.Context, l launcher) (*report, error) {
	revisions, rates, slice := translate.All(), []int{100, 300, 1000, 3000, 10000, 20000}, p.slice
	if p.quick {
		slice = min(slice, 8*time.Millisecond)
		rates = []int{100, 1000, 20000}
		p.packages = "none"
	}
	r := &report{began: time.Now(), slice: slice, quick: p.quick}
	var err error
	say := func(what string) {
		fmt.Fprintf(os.Stderr, "latency: %3.0f s: %s\n", time.Since(r.began).Seconds(), what)
	}
	say("pairs of revisions")
	if r.pairs, err = l.measurePairs(ctx, slice, revisions); err != nil {
		return nil, err
	}
	say("other proxies")
	installed := l.install(ctx, p.packages)
	if r.others, err = l.measureOthers(ctx, slice, installed); err != nil {
		return nil, err
	}
	say("fixed rates")
	if r.load, err = l.measureLoad(ctx, 2*slice, rates, installed); err != nil {
		return nil, err
	}
	r.skipped = installed.skipped
	say("done")
	return r, nil
}

// put prints text, or replaces with it what is between the markers of this name in the file -write.
func (p plan) put(name, text string) error {
	if p.write == "" {
		fmt.Print(text)
		return nil
	}
	file, err := os.ReadFile(p.write)
	if err != nil {
		return err
	}
	if file, err = replaceMarked(file, name, text); err != nil {
		return fmt.Errorf("%s: %w", p.write, err)
	}
	return os.WriteFile(p.write, file, 0o644)
}

func replaceMarked(file []byte, name, text string) ([]byte, error) {
	begin, end := []byte("<!-- "+name+":begin -->\n"), []byte("<!-- "+name+":end -->")
	head, rest, found := bytes.Cut(file, begin)
	_, tail, ended := bytes.Cut(rest, end)
	if !found || !ended {
		return nil, fmt.Errorf("has no lines %s and %s", bytes.TrimSpace(begin), end)
	}
	return bytes.Join([][]byte{head, begin, []byte(text), end, tail}, nil), nil
}
