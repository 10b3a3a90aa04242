//go:build !race

package metrics

import "testing"

// TestRequestAllocatesNothing checks also that looking up the name of the tool allocates nothing.
func TestRequestAllocatesNothing(t *testing.T) {
	m, count := common()
	page := list(50)
	m.Tools.Learn(page)
	if n := testing.AllocsPerRun(100, func() { count(); m.Tools.Learn(page) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
