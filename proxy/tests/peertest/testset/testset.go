// Package testset holds which tests a run plays. "go test ./..." plays those that need nothing but Go. The others are in sets,
// which the variable TEST_SETS names, separated by commas; the Makefile has a target for each.
package testset

import (
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

// Variable names the sets that a run plays beside the tests that need nothing but Go.
const Variable = "TEST_SETS"

// Set is a set of tests. Its target in the Makefile is "test-" with its name.
type Set string

// Sets are all sets.
var Sets = []Set{Peers, Browsers, Redis, Measurements, Judges}

const (
	Peers        Set = "peers"        // the built command with published clients and servers, most of which need Node.js
	Browsers     Set = "browsers"     // web pages in Chromium
	Redis        Set = "redis"        // the store that replicas share
	Measurements Set = "measurements" // of the programs that measure: that they work
	Judges       Set = "judges"       // requests against the vendors' own API documents, 450 MB
)

// Chosen returns whether the run plays the set.
func Chosen(s Set) bool {
	return slices.Contains(strings.Split(os.Getenv(Variable), ","), string(s))
}

// Need skips the test unless the run plays its set and the machine has the programs.
func Need(t testing.TB, s Set, programs ...string) {
	t.Helper()
	if !Chosen(s) {
		t.Skipf("make test-%s plays it", s)
	}
	for _, p := range programs {
		if _, err := exec.LookPath(p); err != nil {
			t.Skipf("%s is not installed", p)
		}
	}
}
