package fleet

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"
)

// maxShown is how many failures of a kind are kept.
const maxShown = 4

// Results counts what became of what clients did, by its name.
type Results struct {
	mu    sync.Mutex
	good  map[string]int
	lost  map[string]int // failed while a replica died, or for want of what an engine held that was down
	bad   map[string]int
	slow  int // deleted sessions that a replica still knew after markTime
	shown []string
	began time.Time
}

// NewResults returns empty results.
func NewResults() *Results {
	return &Results{good: map[string]int{}, lost: map[string]int{}, bad: map[string]int{}, began: time.Now()}
}

func (r *Results) ok(what string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.good[what]++
}

func (r *Results) excuse(what, why string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.lost[what+", "+why]++
}

func (r *Results) late() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.slow++
}

func (r *Results) fail(what string, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.bad[what]++
	if r.bad[what] <= maxShown {
		r.shown = append(r.shown, fmt.Sprintf("%s, after %.2f s: %.400v", what, time.Since(r.began).Seconds(), err))
	}
}

// Good returns how much went well.
func (r *Results) Good() (n int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, k := range r.good {
		n += k
	}
	return n
}

// Done returns how often something went well.
func (r *Results) Done(what string) (n int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.done(what)
}

func (r *Results) done(what string) (n int) {
	for name, k := range r.good {
		if strings.HasPrefix(name, what) {
			n += k
		}
	}
	return n
}

// Err returns an error that names what should not have failed.
func (r *Results) Err() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	var errs []error
	if r.slow*2 > r.done("delete of") {
		errs = append(errs, fmt.Errorf("%d of %d deleted sessions were known for longer than %v", r.slow, r.done("delete of"), markTime))
	}
	for _, what := range slices.Sorted(maps.Keys(r.bad)) {
		errs = append(errs, fmt.Errorf("%d of %q failed", r.bad[what], what))
	}
	for _, one := range r.shown {
		errs = append(errs, errors.New(one))
	}
	return errors.Join(errs...)
}

// String lists all counts.
func (r *Results) String() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	var lines []string
	add := func(kind string, of map[string]int) {
		for _, what := range slices.Sorted(maps.Keys(of)) {
			lines = append(lines, fmt.Sprintf("  %8d  %s%s", of[what], what, kind))
		}
	}
	add("", r.good)
	add("", r.lost)
	add(" FAILED", r.bad)
	return strings.Join(lines, "\n")
}

func readAll(r io.Reader) (string, error) {
	text, err := io.ReadAll(io.LimitReader(r, maxBody))
	return string(text), err
}
