package cost

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/dragoman-proxy/dragoman/translate"
)

// Latency says how latency, growth and the worlds beside other proxies are measured, and where the results go.
type Latency struct {
	Slice    time.Duration
	Out      string // folder of the pictures
	Write    string // file whose marked part is replaced; "" for stdout
	Quick    bool   // try everything that needs no network in a few seconds
	Packages string // folder in which the packages of other proxies are kept; "" for a temporary one, "none" for none
	Binary   string // the command to measure; "" to build it
}

// Run measures what dragoman adds to a call, for each pair of revisions on each kind of transport, beside other
// proxies, and at fixed rates, and writes tables and two pictures.
func (p Latency) Run(ctx context.Context) error {
	l, err := newLauncher(ctx, p.Binary)
	defer os.RemoveAll(l.dir)
	if err != nil {
		return err
	}
	r, err := p.measure(ctx, l)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(p.Out, 0o755); err != nil {
		return err
	}
	for name, picture := range map[string][]byte{heatFile: heatMap(r.pairs), loadFile: loadChart(r.load)} {
		if err := os.WriteFile(filepath.Join(p.Out, name), picture, 0o644); err != nil {
			return err
		}
	}
	return p.put("latency", r.markdown())
}

// with calls do with a launcher.
func (p Latency) with(ctx context.Context, do func(launcher) error) error {
	l, err := newLauncher(ctx, p.Binary)
	defer os.RemoveAll(l.dir)
	if err != nil {
		return err
	}
	return do(l)
}

// Growth measures how the cost grows with tools, bytes, connections and adapters.
func (p Latency) Growth(ctx context.Context) error {
	return p.with(ctx, func(l launcher) error {
		rows, err := l.measureGrowth(ctx, growthPlan(p.Quick, p.Slice))
		if err != nil {
			return err
		}
		return p.put("growth", growthTable(rows))
	})
}

// Beside plays the same small worlds with dragoman and with other proxies.
func (p Latency) Beside(ctx context.Context) error {
	return p.with(ctx, func(l launcher) error {
		began := time.Now()
		n := l.install(ctx, p.Packages)
		names, rows, err := l.measureBeside(ctx, p.Slice, n)
		if err != nil {
			return err
		}
		return p.put("beside", besideTable(began, names, rows, n.skipped))
	})
}

func (p Latency) measure(ctx context.Context, l launcher) (*report, error) {
	revisions, rates, slice := translate.All(), []int{100, 300, 1000, 3000, 10000, 20000}, p.Slice
	if p.Quick {
		slice = min(slice, 8*time.Millisecond)
		rates = []int{100, 1000, 20000}
		p.Packages = "none"
	}
	r := &report{began: time.Now(), slice: slice, quick: p.Quick}
	var err error
	say := func(what string) {
		fmt.Fprintf(os.Stderr, "latency: %3.0f s: %s\n", time.Since(r.began).Seconds(), what)
	}
	say("pairs of revisions")
	if r.pairs, err = l.measurePairs(ctx, slice, revisions); err != nil {
		return nil, err
	}
	say("other proxies")
	installed := l.install(ctx, p.Packages)
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
func (p Latency) put(name, text string) error {
	if p.Write == "" {
		fmt.Print(text)
		return nil
	}
	file, err := os.ReadFile(p.Write)
	if err != nil {
		return err
	}
	if file, err = replaceMarked(file, name, text); err != nil {
		return fmt.Errorf("%s: %w", p.Write, err)
	}
	return os.WriteFile(p.Write, file, 0o644)
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
