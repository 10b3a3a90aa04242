package fuzz

import (
	"slices"
	"strings"
	"testing"
)

func TestTargetsThatWereNotFuzzedAreDetected(t *testing.T) {
	for name, test := range map[string]struct {
		said  string
		begun int
		want  int
	}{
		"fuzzed": {
			"fuzz: elapsed: 0s, gathering baseline coverage: 0/12 completed\n" +
				"fuzz: elapsed: 0s, gathering baseline coverage: 12/12 completed, now fuzzing with 1 workers\n" +
				"fuzz: elapsed: 3s, execs: 800 (266/sec), new interesting: 1 (total: 13)\n" +
				"fuzz: elapsed: 5s, execs: 1012 (106/sec), new interesting: 1 (total: 13)\nPASS\n", 1, 1000},
		"only its corpus ran": {
			"fuzz: elapsed: 0s, gathering baseline coverage: 12/12 completed, now fuzzing with 1 workers\n" +
				"fuzz: elapsed: 5s, execs: 12 (2/sec), new interesting: 0 (total: 12)\nPASS\n", 1, 0},
		"its corpus took too long": {
			"fuzz: elapsed: 3s, gathering baseline coverage: 3/12 completed\n", 0, 0},
		"it failed on an input that is longer than a line should be": {
			"fuzz: elapsed: 0s, gathering baseline coverage: 1/1 completed, now fuzzing with 1 workers\n" +
				strings.Repeat("x", 1<<17) + "\nfuzz: elapsed: 1s, execs: 3 (3/sec), new interesting: 0 (total: 1)\n", 1, 2},
		"it said nothing": {},
	} {
		for _, size := range []int{1, 10, len(test.said) + 1} { // of a write
			begun := 0
			o := output{begin: func() { begun++ }}
			for part := range slices.Chunk([]byte(test.said), size) {
				o.Write(part)
			}
			if o.text.String() != test.said || begun != test.begun || o.fuzzed() != test.want {
				t.Errorf("%s, %d bytes at a time: %d inputs, begun %d times", name, size, o.fuzzed(), begun)
			}
		}
	}
}

func TestFuzzingWithoutCoverageIsDetected(t *testing.T) {
	var o output
	o.Write([]byte("fuzz: elapsed: 0s, gathering baseline coverage: 12/12 completed\n"))
	if o.blind() {
		t.Error("a search with coverage is called blind")
	}
	o.Write([]byte("warning: the test binary was not built with coverage instrumentation, so fuzzing will run without coverage guidance and may be inefficient\n"))
	if !o.blind() {
		t.Error("a search without coverage is not seen")
	}
}
