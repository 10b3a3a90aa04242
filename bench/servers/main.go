// Servers runs published MCP servers directly and through dragoman, with clients of all revisions and published ones, and reports what
// differs.
//
//	go run ./bench/servers -install -write docs/servers.md
//
// servers.yaml says which servers, how they are started, and what is called of them. Only -install installs anything. A
// difference is reported unless promised.go has a rule of docs/revisions-and-losses.md for it, or the server's data a reason;
// with such differences the exit code is 1. Run it from the root of the module.
package main

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/dragoman-proxy/dragoman/bench/measure/process"
	"github.com/dragoman-proxy/dragoman/cmd/proxy/e2e/nodetest"
)

var errDiffers = errors.New("something differs that docs/servers.md does not name")

type options struct {
	cache    cache
	dragoman string
	install  bool
	write    string
	only     string
	draw     int
	by       string
	limit    time.Duration
	parallel int
	show     string
}

func main() {
	folder, err := defaultCache()
	if err != nil {
		folder = ""
	}
	var o options
	flag.StringVar((*string)(&o.cache), "cache", string(folder), "folder in which each server has one of its own")
	flag.StringVar(&o.dragoman, "dragoman", "", "the command to test (default: build it)")
	flag.BoolVar(&o.install, "install", false, "install the servers that are not there; nothing else does")
	flag.StringVar(&o.write, "write", "", "file for the page; servers that are not run keep their rows in it (default: none)")
	flag.StringVar(&o.only, "only", "", "names of the servers to run, separated by commas (default: all)")
	flag.IntVar(&o.draw, "draw", 0, "run so many of the installed servers, each on one transport, and with one client of the older revisions, drawn by -by (default: all)")
	flag.StringVar(&o.by, "by", "", "with -draw: the text that decides, such as a commit's hash")
	flag.DurationVar(&o.limit, "limit", 2*time.Hour, "time for all servers")
	flag.IntVar(&o.parallel, "parallel", runtime.NumCPU(), "how many servers run at once")
	flag.StringVar(&o.show, "show", "", "folder for all transcripts, to look at")
	flag.Parse()
	if flag.NArg() > 0 || o.cache == "" || o.parallel < 1 || o.write != "" && o.draw > 0 {
		flag.Usage()
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := o.run(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "servers:", err)
		os.Exit(1)
	}
}

func (o options) run(ctx context.Context) error {
	if runtime.GOOS != "linux" {
		return fmt.Errorf("needs /proc, to end all processes of a server; %s does not have it", runtime.GOOS)
	}
	l, err := readList(servers)
	if err != nil {
		return err
	}
	chosen, err := o.choose(l.Servers)
	if err != nil {
		return err
	}
	if len(chosen) == 0 { // of those to draw from
		fmt.Println("skipped: no server is installed; make test-servers installs them")
		return nil
	}
	missing := map[string]string{}
	if o.install {
		missing = o.installAll(ctx, chosen)
	}
	dir, err := os.MkdirTemp("", "servers-command-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	if o.dragoman == "" {
		if o.dragoman, err = process.Build(ctx, dir, "./cmd/dragoman"); err != nil {
			return err
		}
	}
	clients, why, err := kinds(ctx, o.install)
	if err != nil {
		return err
	}
	if o.draw > 0 {
		clients = drawClients(clients, o.by)
	}
	switch {
	case why != "" && o.write != "":
		return errors.New(why + ": -install installs them for the page")
	case why != "":
		fmt.Println(why)
	}
	runner := &runner{cache: o.cache, dragoman: o.dragoman, kinds: clients, drivers: &nodetest.Drivers{Folder: peersFolder}, pace: usual}
	defer runner.drivers.End()
	if o.show != "" {
		runner.show = o.save
	}
	ctx, cancel := context.WithTimeout(ctx, o.limit)
	defer cancel()
	results := o.runAll(ctx, runner, chosen, missing)
	if ctx.Err() != nil && o.draw == 0 {
		return errors.New(outOfTime)
	}
	if o.write != "" {
		old, err := os.ReadFile(o.write)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		if err := os.WriteFile(o.write, page(l, clients, results, old), 0o644); err != nil {
			return err
		}
	}
	if err := verdict(results); o.draw == 0 || errors.Is(err, errDiffers) {
		return err
	}
	return nil // that a published server does not run on a busy machine is not dragoman's fault
}

// choose returns the servers to run.
func (o options) choose(all []*server) ([]*server, error) {
	if o.only != "" {
		names := strings.Split(o.only, ",")
		all = slices.DeleteFunc(slices.Clone(all), func(s *server) bool { return !slices.Contains(names, s.Name) })
		if len(all) != len(names) {
			return nil, fmt.Errorf("-only %s: servers.yaml has %d of them", o.only, len(all))
		}
	}
	if o.draw <= 0 {
		return all, nil
	}
	return draw(slices.DeleteFunc(slices.Clone(all), func(s *server) bool { return !o.cache.has(s) }), o.draw, o.by), nil
}

// draw returns n of the servers, each with one of its transports. The text alone decides which.
func draw(all []*server, n int, by string) []*server {
	random := randomBy(by)
	all = slices.SortedFunc(slices.Values(all), func(a, b *server) int { return strings.Compare(a.Name, b.Name) })
	random.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	var drawn []*server
	for _, s := range all[:min(n, len(all))] {
		ways := s.ways()
		drawn = append(drawn, s.only(ways[random.IntN(len(ways))].transport))
	}
	return drawn
}

// drawClients returns the clients but for those of older revisions, of which it leaves one. The text alone decides which.
func drawClients(all []kind, by string) []kind {
	older := slices.DeleteFunc(slices.Clone(all), func(k kind) bool { return k.revision >= newestHandshake })
	left := older[randomBy(by).IntN(len(older))].name
	return slices.DeleteFunc(slices.Clone(all), func(k kind) bool { return k.revision < newestHandshake && k.name != left })
}

func randomBy(text string) *rand.Rand {
	sum := sha256.Sum256([]byte(text))
	return rand.New(rand.NewPCG(binary.BigEndian.Uint64(sum[:8]), binary.BigEndian.Uint64(sum[8:16])))
}

// installAll installs the servers, and returns why some could not be.
func (o options) installAll(ctx context.Context, all []*server) map[string]string {
	failed := map[string]string{}
	began := time.Now()
	for i, s := range all {
		if o.cache.has(s) {
			continue
		}
		fmt.Fprintf(os.Stderr, "%3.0f s: install %s, %d of %d\n", time.Since(began).Seconds(), s.Name, i+1, len(all))
		if err := o.cache.install(ctx, s); err != nil {
			fmt.Fprintf(os.Stderr, "install %s: %v\n", s.Name, err)
			failed[s.Name] = "could not be installed"
		}
	}
	return failed
}

func (o options) runAll(ctx context.Context, r *runner, chosen []*server, missing map[string]string) []*result {
	results := make([]*result, len(chosen))
	free := make(chan struct{}, o.parallel)
	began := time.Now()
	var running sync.WaitGroup
	var printing sync.Mutex
	for i, s := range chosen {
		results[i] = &result{server: s, failed: missing[s.Name]}
		switch {
		case missing[s.Name] != "":
			continue
		case !o.cache.has(s):
			results[i].failed = "not installed"
			continue
		}
		free <- struct{}{}
		running.Go(func() {
			defer func() { <-free }()
			if ctx.Err() != nil {
				results[i].failed = outOfTime
				return
			}
			results[i] = r.run(ctx, s)
			printing.Lock()
			defer printing.Unlock()
			fmt.Fprintf(os.Stderr, "%4.0f s: ", time.Since(began).Seconds())
			fmt.Println(results[i].line())
			for _, text := range results[i].report() {
				fmt.Println("    " + text)
			}
		})
	}
	running.Wait()
	return results
}

// save writes a transcript into the folder of -show.
func (o options) save(s *server, transport string, k kind, through bool, t transcript) {
	side := "direct"
	if through {
		side = "through"
	}
	text, err := json.MarshalIndent(t.json(), "", "  ")
	if err == nil {
		err = os.MkdirAll(o.show, 0o755)
	}
	if err == nil {
		err = os.WriteFile(filepath.Join(o.show, strings.Join([]string{s.Name, transport, k.name, side}, "_")+".json"), text, 0o644)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "servers:", err)
	}
}
