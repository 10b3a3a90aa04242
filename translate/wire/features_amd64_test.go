package wire

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
)

// TestGODEBUGTurnsInstructionsOff, as users of the Go runtime expect: each switch leaves only what needs less.
func TestGODEBUGTurnsInstructionsOff(t *testing.T) {
	if os.Getenv("DRAGOMAN_TEST_WAYS") != "" {
		fmt.Printf("ways: %v %v %v\n", hasBlocks, hasWalk, hasWalk512)
		return
	}
	here := []bool{hasBlocks, hasWalk, hasWalk512}
	for value, left := range map[string]int{"": 3, "cpu.avx512=off": 2, "cpu.avx512bw=off": 2, "cpu.bmi2=off": 1, "cpu.avx2=off": 0} {
		want := []bool{false, false, false}
		copy(want, here[:left])
		c := exec.Command(os.Args[0], "-test.run=^TestGODEBUGTurnsInstructionsOff$")
		c.Env = append(os.Environ(), "DRAGOMAN_TEST_WAYS=1", "GODEBUG="+value)
		out, err := c.Output() // the runtime warns on stderr of switches that only x/sys knows
		if line := fmt.Sprintf("ways: %v %v %v\n", want[0], want[1], want[2]); err != nil || !strings.HasPrefix(string(out), line) {
			t.Errorf("%s: %s%v, want %s", value, out, err, line)
		}
	}
}
