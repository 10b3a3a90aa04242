package main

import (
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"
)

// maxShown is how many unexpected outcomes are printed.
const maxShown = 10

// outcomes counts the outcomes of what clients did, by their description.
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

// show prints an unexpected outcome, the first maxShown times.
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
