package translate

import (
	"sync"
	"testing"
)

// TestOneTableForTheSameSwitches, also if they are left out: what was compiled is still there after a reload.
func TestOneTableForTheSameSwitches(t *testing.T) {
	made := func(o Options) *Table {
		table, err := NewTable(o)
		if err != nil {
			t.Error(err)
		}
		return table
	}
	first := made(Options{})
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			if made(Options{Tasks: "bridge"}) != first {
				t.Error("another table for the same switches")
			}
		})
	}
	all.Wait()
	if made(Options{Tasks: "strip"}) == first {
		t.Error("the same table for other switches")
	}
	if _, err := NewTable(Options{Tasks: "x"}); err == nil {
		t.Error("no error")
	}
}
