package main

import (
	"fmt"
	"io"
	"strings"
)

// lost prints the facts of an answer that are not kept at a budget, with their weight and
// their size in tokens.
func lost(w io.Writer, a *answer, budget int) {
	facts, needs, cost := weighed(a)
	text, _ := product(a, budget).left()
	got := keptOf(text, needs)
	most := possible(facts, cost, budget-40)
	fmt.Fprintf(w, "=== %s (%s): %.2f of %.1f\n", a.Name, a.Kind, weightOf(facts, got)/most, most)
	for i, f := range facts {
		if !got[i] {
			fmt.Fprintf(w, "  %4.1f %3d  %.120s\n", f.weight, cost[i], strings.Join(f.parts, " + "))
		}
	}
}
