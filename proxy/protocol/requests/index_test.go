package requests

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/dragoman-proxy/dragoman/translate/wire"
)

// TestManyOpenRequests: a Table finds every request, and gives each once, whether it has few or many, and when many have become few.
func TestManyOpenRequests(t *testing.T) {
	table := NewTable[told](10 * few)
	var open []*Request[told]
	check := func() {
		t.Helper()
		if got := table.Count(); got != len(open) {
			t.Fatalf("%d are open, want %d", got, len(open))
		}
		list := table.List()
		for _, c := range open {
			if !table.Has(c) || table.Newest([]byte(c.Key)) != c || !slices.Contains(list, c) {
				t.Fatalf("%s of %d is not found", c.ID, len(open))
			}
		}
		if len(list) != len(open) {
			t.Fatalf("%d are listed, want %d", len(list), len(open))
		}
	}
	for round := range 2 {
		for i := range 3 * few {
			c := New[told](fmt.Appendf(nil, "%d", i), wire.ToolsCall, time.Now())
			if err := table.Add(c); err != nil {
				t.Fatal(err)
			}
			open = append(open, c)
			check()
		}
		for len(open) > round*few { // from both ends in turns
			at := 0
			if len(open)%2 == 0 {
				at = len(open) - 1
			}
			if table.Take([]byte(open[at].Key)) != open[at] || table.End(open[at]) {
				t.Fatalf("%s of %d is not taken once", open[at].ID, len(open))
			}
			open = slices.Delete(open, at, at+1)
			check()
		}
	}
	if got := len(table.Drain()); got != few {
		t.Errorf("%d are drained, want %d", got, few)
	}
	open = nil
	check()
}

// TestNewestOfManyWithOneID: with few requests as with many, an older one with the same id is found when the newer one ends.
func TestNewestOfManyWithOneID(t *testing.T) {
	for _, others := range []int{0, few, 2 * few} {
		table := NewTable[told](10 * few)
		for i := range others {
			if err := table.Add(New[told](fmt.Appendf(nil, "%d", i), wire.ToolsCall, time.Now())); err != nil {
				t.Fatal(err)
			}
		}
		older, newer := New[told]([]byte(`"a"`), wire.ToolsCall, time.Now()), New[told]([]byte(`"a"`), wire.ToolsCall, time.Now())
		if table.Add(older) != nil || table.Add(newer) != nil {
			t.Fatal("not added")
		}
		key := []byte(newer.Key)
		if table.Take(key) != newer || table.Take(key) != older || table.Take(key) != nil {
			t.Errorf("with %d others: not the newer one, and then the older one", others)
		}
		if table.Count() != others {
			t.Errorf("%d are open, want %d", table.Count(), others)
		}
	}
}
