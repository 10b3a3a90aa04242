// Command capper measures what is kept of real answers that are cut to a budget
// of tokens, and compares it with four simple ways to cut.
//
//	go run ./bench/capper                 # the answers for tuning
//	go run ./bench/capper -set held       # the answers that were not used for tuning
//	go run ./bench/capper -set all -by answer
//	go run ./bench/capper -lost 500 -only jest   # which facts are lost
//	go run ./bench/capper -dir ~/recorded        # answers of your own
//
// testdata has the answers, and SOURCES.md their sources. facts.go has the rules
// that say what a reader looks for in an answer, jsonfacts.go and textfacts.go those for
// JSON and for texts.
package main

import (
	"flag"
	"fmt"
	"os"
	"strconv"
	"strings"
)

var verbose = flag.Bool("v", false, "tell what reading each answer to its end costs")

func main() {
	set := flag.String("set", "tune", "answers to measure: tune, held or all")
	by := flag.String("by", "kind", "rows of the table: kind or answer")
	budgets := flag.String("budgets", "200,500,2000,8000", "budgets in tokens")
	only := flag.String("only", "", "only answers whose name has this in it")
	show := flag.Int("show", 0, "print what is left of each answer at this budget")
	folder := flag.String("dir", "", "measure the answers in this folder, written as those in testdata")
	missing := flag.Int("lost", 0, "print the facts of each answer that are lost at this budget")
	flag.Parse()

	var sizes []int
	for _, s := range strings.Split(*budgets, ",") {
		n, err := strconv.Atoi(s)
		if err != nil || n < 100 {
			fmt.Fprintf(os.Stderr, "capper: -budgets: %q is no number of at least 100\n", s)
			os.Exit(2)
		}
		sizes = append(sizes, n)
	}
	answers, err := load(*set, *only, *folder)
	if err != nil {
		fmt.Fprintln(os.Stderr, "capper:", err)
		os.Exit(1)
	}
	if *show > 0 {
		for _, a := range answers {
			fmt.Printf("=== %s\n%s\n", a.Name, strings.Join(product(a, *show).texts(), "\n---\n"))
		}
		return
	}
	if *missing > 0 {
		for _, a := range answers {
			lost(os.Stdout, a, *missing)
		}
		return
	}
	t := measure(answers, sizes)
	t.print(os.Stdout, *by == "answer")
	if t.broken() {
		os.Exit(1)
	}
}
