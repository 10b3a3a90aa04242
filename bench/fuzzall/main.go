// Fuzzall runs every fuzz target of the given packages, one after the other, each
// for the same time.
//
//	go run ./bench/fuzzall -time 20s ./...
package main

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"time"
)

func main() {
	each := flag.Duration("time", 20*time.Second, "how long to run each target")
	flag.Parse()
	targets, err := list(flag.Args())
	if err == nil && len(targets) == 0 {
		err = fmt.Errorf("no fuzz target in %v", flag.Args())
	}
	for _, t := range targets {
		if err != nil {
			break
		}
		fmt.Printf("fuzz %s %s\n", t.pkg, t.name)
		err = run(t, *each)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "fuzzall:", err)
		os.Exit(1)
	}
	fmt.Printf("%d passed, 0 failed\n", len(targets))
}

type target struct{ pkg, name string }

// list asks the test binaries for their targets.
func list(packages []string) ([]target, error) {
	out, err := exec.Command("go", append([]string{"test", "-list", "^Fuzz"}, packages...)...).Output()
	if err != nil {
		return nil, fmt.Errorf("go test -list: %w\n%s", err, out)
	}
	var found []target
	var names []string
	for _, line := range strings.Split(string(out), "\n") {
		switch f := strings.Fields(line); {
		case strings.HasPrefix(line, "Fuzz"):
			names = append(names, line)
		case len(f) > 1 && f[0] == "ok":
			for _, n := range names {
				found = append(found, target{f[1], n})
			}
			names = nil
		}
	}
	return found, nil
}

func run(t target, each time.Duration) error {
	// A minute spent on shrinking one input is a minute not spent on others.
	cmd := exec.Command("go", "test", t.pkg, "-run", "^$", "-fuzz", "^"+t.name+"$",
		"-fuzztime", each.String(), "-fuzzminimizetime", "1s")
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Run(); err != nil && !endedByClock(out.Bytes()) {
		return fmt.Errorf("%s %s: %w\n%s", t.pkg, t.name, err, out.Bytes())
	}
	return nil
}

// endedByClock reports whether a run failed for nothing but the end of its time:
// the go command calls it a failure when that falls into the middle of an input
// (https://go.dev/issue/75804). What found something names the input.
func endedByClock(out []byte) bool {
	return bytes.Contains(out, []byte("\n    context deadline exceeded\nFAIL\n")) &&
		!bytes.Contains(out, []byte("Failing input written to"))
}
