package main

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/dragoman-proxy/dragoman/bench/compare/process"
	"github.com/dragoman-proxy/dragoman/bench/proxies"
)

// The ways through dragoman while something watches, or should take what is seen and does not.
const (
	again   = dragoman + ", once more" // says how far two equal ways differ
	kept    = dragoman + ", rows kept"
	opened  = dragoman + ", page open"
	unread  = dragoman + ", page not read"
	full    = dragoman + ", disk of the recording full"
	logged  = dragoman + ", log of each call"
	muted   = dragoman + ", log of each call not read"
	aToken  = "a-token-for-measurements-of-watching"
	aFullMB = 1
)

// mixedWays is how many ways, the first ones, get calls of all kinds.
const mixedWays = 4

// watching is what it costs that calls are watched: the same calls with a reader and without, in turns.
type watching struct {
	ways         []*way
	small, mixed map[key]*cell // of small calls alone, and then of all kinds
}

// measureWatching measures calls through dragoman without and with readers.
func (l launcher) measureWatching(ctx context.Context, p plan, server string, list []work) (m *watching, err error) {
	m = new(watching)
	defer func() { stopAll(m.ways) }()
	ctx, cancel := context.WithCancel(ctx)
	var pages sync.WaitGroup
	defer pages.Wait()
	defer cancel()
	for _, name := range []string{dragoman, kept, opened, again, unread, full, logged, muted} {
		w, err := l.watched(ctx, name, server)
		if err != nil {
			return nil, err
		}
		if w == nil {
			continue
		}
		m.ways = append(m.ways, w)
		switch name {
		case opened:
			pages.Go(func() { readPage(ctx, w) })
		case unread:
			pages.Go(func() { ignorePage(ctx, w) })
		}
	}
	time.Sleep(time.Second) // the pages are open
	if m.small, err = measure(ctx, p, m.ways, list[:small+1]); err != nil {
		return nil, err
	}
	if m.mixed, err = measure(ctx, p, m.ways[:mixedWays], list[:large+1]); err != nil {
		return nil, err
	}
	return m, nil
}

// watched starts dragoman with what watches it. It returns nil if this machine cannot.
func (l launcher) watched(ctx context.Context, name, server string) (*way, error) {
	args := []string{l.dragoman, "serve", "--upstream", server, "--listen", "127.0.0.1:0"}
	admin, run, env := "", process.Start, []string{}
	switch name {
	case kept, opened, unread:
		at, err := proxies.FreeAddress()
		if err != nil {
			return nil, err
		}
		admin = at
		env = append(env, "DRAGOMAN_INSPECT_ENABLED=true", "DRAGOMAN_INSPECT_TOKEN="+aToken)
		if name == kept {
			env = append(env, "DRAGOMAN_INSPECT_KEEP=true")
		}
	case full:
		dir, err := os.MkdirTemp(l.dir, "full")
		if err != nil {
			return nil, err
		}
		env = append(env, "DRAGOMAN_RECORD_FILE="+filepath.Join(dir, "calls.jsonl"))
		mount := fmt.Sprintf(`mount -t tmpfs -o size=%dm tmpfs "$0" && exec "$@"`, aFullMB)
		args = append([]string{"unshare", "-Urm", "sh", "-c", mount, dir}, args...)
		if exec.Command("unshare", "-Urm", "sh", "-c", mount, dir, "true").Run() != nil {
			fmt.Fprintln(os.Stderr, "compare: not measured: "+full+" (this user cannot mount a small disk)")
			return nil, nil
		}
	case muted:
		run = process.StartUnread
		fallthrough
	case logged:
		env = append(env, "DRAGOMAN_LOG_LEVEL=debug")
	}
	cmd := exec.Command(args[0], args[1:]...)
	cmd.Env = append(append(os.Environ(), "DRAGOMAN_ADMIN_LISTEN="+admin), env...)
	p, err := run(ctx, cmd)
	w, err := newWay(name, p, err)
	if err == nil {
		w.admin = admin
	}
	return w, err
}

// readPage reads the feed of the page as a browser does, until ctx ends.
func readPage(ctx context.Context, w *way) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+w.admin+"/inspect/feed", nil)
	if err != nil {
		return
	}
	req.Header.Set("Authorization", "Bearer "+aToken)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		fmt.Fprintln(os.Stderr, "compare: the page:", resp.Status)
	}
	io.Copy(io.Discard, resp.Body)
}

// ignorePage opens the feed again and again, and never reads it: dragoman cuts it off after some time.
func ignorePage(ctx context.Context, w *way) {
	for ctx.Err() == nil {
		conn, err := net.Dial("tcp", w.admin)
		if err != nil {
			return
		}
		_ = conn.(*net.TCPConn).SetReadBuffer(4096) // the smaller, the sooner dragoman has to wait
		fmt.Fprintf(conn, "GET /inspect/feed HTTP/1.1\r\nHost: %s\r\nAuthorization: Bearer %s\r\n\r\n", w.admin, aToken)
		select {
		case <-ctx.Done():
		case <-time.After(2 * time.Second):
		}
		conn.Close()
	}
}

// goals returns the processor time and memory that a watcher costs, and what calls wait for it.
func (m *watching) goals() (list []goal) {
	busy := loads()[len(loads())-1]
	cpu := func(cells map[key]*cell, name string, work int) float64 {
		return cells[key{name, work, busy}].cpuPerCall() / cells[key{dragoman, work, busy}].cpuPerCall()
	}
	memory := func(cells map[key]*cell, name string, works int) float64 {
		most := func(way string) (n int64) {
			for work := range works {
				for _, load := range loads() {
					n = max(n, cells[key{way, work, load}].resident)
				}
			}
			return n
		}
		return float64(most(name)-most(dragoman)) / 1e6
	}
	for _, name := range []string{again, kept, opened} {
		short := strings.TrimPrefix(name, dragoman+", ")
		list = append(list,
			goal{short + ": CPU per small call, × without", cpu(m.small, name, small), 1.05, 1.15},
			goal{short + ": CPU per list of 50 tools, × without", cpu(m.mixed, name, toolList), 1.1, 1.3},
			goal{short + ": CPU per result of 1 MB, × without", cpu(m.mixed, name, large), 1.1, 1.3},
			goal{short + ": small calls, MB over without", memory(m.small, name, small+1), 20, 24},
			goal{short + ": all calls, MB over without", memory(m.mixed, name, large+1), 20, 24})
	}
	for _, pair := range [][2]string{{again, dragoman}, {unread, dragoman}, {full, dragoman}, {muted, logged}} {
		with, without := m.small[key{pair[0], small, 1}], m.small[key{pair[1], small, 1}]
		if with == nil {
			continue
		}
		list = append(list, goal{strings.TrimPrefix(pair[0], dragoman+", ") + ": p99, one at a time, ms more", medianOfDifferences(with.slow, without.slow), 0.05, 0.1})
	}
	return list
}

// medianOfDifferences compares turns of the same rounds, in milliseconds.
func medianOfDifferences(with, without []int64) float64 {
	list := make([]int64, min(len(with), len(without)))
	for i := range list {
		list[i] = with[i] - without[i]
	}
	slices.Sort(list)
	return float64(list[(len(list)-1)/2]+list[len(list)/2]) / 2e6
}
