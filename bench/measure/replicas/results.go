package replicas

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"
)

// maxShown is how many failures of a kind are told.
const maxShown = 4

// Results counts what became of what clients did, by its name. The zero value is empty.
type Results struct {
	mu    sync.Mutex
	began time.Time
	count map[string]int // the name begins with how it ended
	shown []error
}

// How something ended.
const (
	good    = "good "
	excused = "excused "
	failed  = "FAILED "
)

func (r *Results) add(ended, what string) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.count == nil {
		r.count, r.began = map[string]int{}, time.Now()
	}
	r.count[ended+what]++
	return r.count[ended+what]
}

// fail counts what should have gone well.
func (r *Results) fail(what string, err error) {
	if n := r.add(failed, what); n <= maxShown {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.shown = append(r.shown, fmt.Errorf("%s, after %.2f s: %.400v", what, time.Since(r.began).Seconds(), err))
	}
}

// done returns how often what begins with this went well.
func (r *Results) done(what string) (n int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for name, k := range r.count {
		if strings.HasPrefix(name, good+what) {
			n += k
		}
	}
	return n
}

// err returns an error that names what should not have failed; nil if nothing did.
func (r *Results) err() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return errors.Join(r.shown...)
}

// String lists all counts.
func (r *Results) String() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	var lines []string
	for _, what := range slices.Sorted(maps.Keys(r.count)) {
		lines = append(lines, fmt.Sprintf("  %8d  %s", r.count[what], what))
	}
	return strings.Join(lines, "\n")
}
