package main

import (
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"
)

// maxShown is how many outcomes that should not be are printed whole.
const maxShown = 10

// outcomes counts what became of what clients did, by what they did.
type outcomes struct {
	mu    sync.Mutex
	seen  map[string]int
	shown int
}

func (o *outcomes) note(what string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.seen == nil {
		o.seen = map[string]int{}
	}
	o.seen[what]++
}

// show prints what should not be, the first few times.
func (o *outcomes) show(what, got string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.shown++; o.shown <= maxShown {
		fmt.Fprintf(os.Stderr, "%s: %.400s\n", what, got)
	}
}

func (o *outcomes) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	var lines []string
	for _, what := range slices.Sorted(maps.Keys(o.seen)) {
		lines = append(lines, fmt.Sprintf("  %8d  %s", o.seen[what], what))
	}
	return strings.Join(lines, "\n")
}
