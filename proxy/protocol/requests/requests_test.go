package requests

import (
	"context"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/dragoman-proxy/dragoman/translate/wire"
)

// told counts the cancellations.
type told struct{ times *int }

func (m told) Cancelled() { *m.times++ }

func request(id string) *Request[told] {
	c := New[told]([]byte(id), wire.ToolsCall, time.Time{})
	c.More.times = new(int)
	return c
}

// TestIDsThatAreEqualAreOne checks ids that are written in several ways.
func TestIDsThatAreEqualAreOne(t *testing.T) {
	table := NewTable[told](9)
	c := request(`"a\u0062"`)
	if err := table.Add(c); err != nil || c.ID != `"a\u0062"` {
		t.Fatalf("%q, %v", c.ID, err)
	}
	key := wire.AppendIDKey(nil, []byte(`"ab"`))
	if !table.Knows(key) || table.Newest(key) != c || table.Take(key) != c || table.Knows(key) {
		t.Error("another id")
	}
	if table.Take(key) != nil {
		t.Error("taken twice")
	}
}

// TestEndedRequestsAreRemembered: a second answer is told from the answer to a request that this table has never had, or had to evict.
func TestEndedRequestsAreRemembered(t *testing.T) {
	table := NewTable[told](2)
	table.Keeps = true
	ended := func(id string, want bool) {
		t.Helper()
		if got := table.Ended(wire.AppendIDKey(nil, []byte(id))); got != want {
			t.Errorf("%s has ended: %t, want %t", id, got, want)
		}
	}
	add := func(id string) *Request[told] {
		t.Helper()
		c := request(id)
		if err := table.Add(c); err != nil {
			t.Fatal(err)
		}
		return c
	}
	ended("1", false)
	add("1")
	ended("1", false)
	table.Take([]byte(request("1").Key))
	ended("1", true)
	ended("1.0", true) // the same id
	ended("2", false)
	add("1")
	ended("1", false)
	table.Cancel([]byte(request("1").Key))
	ended("1", true)

	table.Abandon(add("3"))
	add("4")
	add("5") // evicts 3
	ended("3", false)
	table.Drain()
	for _, id := range []string{"1", "4", "5"} {
		ended(id, false)
	}

	for n := range maxEnded + 1 {
		table.End(add(strconv.Itoa(n)))
	}
	ended("0", false)
	ended("1", true)
	ended(strconv.Itoa(maxEnded), true)
	if n := cap(table.ended); n > 2*maxEnded {
		t.Errorf("there is room for %d", n)
	}
}

func TestAddSaysWhyARequestIsRefused(t *testing.T) {
	table := NewTable[told](2)
	table.Unique = true
	if err := table.Add(request("1")); err != nil {
		t.Fatal(err)
	}
	if err := table.Add(request("1")); err != ErrDuplicate {
		t.Errorf("the same id: %v", err)
	}
	left := request("2")
	if err := table.Add(left); err != nil {
		t.Fatal(err)
	}
	if err := table.Add(request("3")); err != ErrTooMany {
		t.Errorf("one too many: %v", err)
	}
	table.Abandon(left) // it gives way
	if err := table.Add(request("3")); err != nil || table.Has(left) {
		t.Errorf("behind an abandoned one: %v", err)
	}
}

// TestCancel checks that a cancellation ends the wait, or calls More.Cancelled, once.
func TestCancel(t *testing.T) {
	table := NewTable[told](9)
	waiting, other := request("1"), request("2")
	ctx, stop := context.WithCancelCause(t.Context())
	waiting.Stop = stop
	for _, c := range []*Request[told]{waiting, other} {
		if err := table.Add(c); err != nil {
			t.Fatal(err)
		}
	}
	if got := table.Cancel([]byte(waiting.Key)); got != waiting || context.Cause(ctx) != ErrCancelled || *waiting.More.times != 0 {
		t.Errorf("%v, %v", got, context.Cause(ctx))
	}
	if !table.CancelThis(other) || table.CancelThis(other) || *other.More.times != 1 || !other.Cancelled.Load() {
		t.Errorf("told %d times", *other.More.times)
	}
	if table.Cancel([]byte(other.Key)) != nil || !table.None() {
		t.Error("something is open")
	}
}

func TestNotesAreCopies(t *testing.T) {
	table := NewTable[told](9)
	c := request("1")
	if err := table.Add(c); err != nil {
		t.Fatal(err)
	}
	note := []byte("note")
	if !table.Annotate([]byte(c.Key), note) {
		t.Fatal("not there")
	}
	note[0] = 'x'
	if string(c.Note) != "note" {
		t.Errorf("%s", c.Note)
	}
	long := []byte(strings.Repeat("x", wire.MaxNote+1))
	if table.Annotate([]byte(c.Key), long) || c.Keep(long) == nil || table.Annotate([]byte("nothing"), note) {
		t.Error("taken")
	}
	if !table.Change([]byte(c.Key), func(c *Request[told]) { c.As = []byte("as") }) || string(c.As) != "as" || table.Change([]byte("nothing"), nil) {
		t.Error("not changed")
	}
}

func TestOverdueEndsRequestsWithoutTimeLeft(t *testing.T) {
	table := NewTable[told](9)
	times := map[string]time.Duration{"1": 0, "2": 3 * time.Second, "3": 2 * time.Second, "4": -1}
	for id := range times {
		if err := table.Add(request(id)); err != nil {
			t.Fatal(err)
		}
	}
	late, next := table.Overdue(func(c *Request[told]) time.Duration { return times[c.ID] })
	ids := []string{late[0].ID, late[1].ID}
	slices.Sort(ids)
	if len(late) != 2 || ids[0] != "1" || ids[1] != "4" || next != 2*time.Second || len(table.List()) != 2 {
		t.Errorf("%v, %v", ids, next)
	}
}

// TestTableAgreesWithAList compares a table with a list, newest last.
func TestTableAgreesWithAList(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		table := NewTable[told](5)
		var open []*Request[told]
		last := func(id string) (at int) {
			at = -1
			for i, c := range open {
				if c.ID == id {
					at = i
				}
			}
			return at
		}
		idle := table.Idle()
		for range rapid.IntRange(1, 40).Draw(t, "steps") {
			id := strconv.Itoa(rapid.IntRange(0, 3).Draw(t, "id"))
			key := wire.AppendIDKey(nil, []byte(id))
			at := last(id)
			switch rapid.IntRange(0, 4).Draw(t, "do") {
			case 0:
				c := request(id)
				if err := table.Add(c); (err == nil) != (len(open) < 5) {
					t.Fatalf("%d open: %v", len(open), err)
				} else if err == nil {
					open = append(open, c)
				}
			case 1:
				if got := table.Take(key); (got == nil) != (at < 0) || got != nil && got != open[at] {
					t.Fatalf("took %v", got)
				} else if got != nil {
					open = slices.Delete(open, at, at+1)
				}
			case 2:
				if len(open) > 0 {
					i := rapid.IntRange(0, len(open)-1).Draw(t, "which")
					if c := open[i]; !table.End(c) || table.End(c) || table.Has(c) || table.Reopen(c, nil) {
						t.Fatal("it ends once")
					}
					open = slices.Delete(open, i, i+1)
				}
			case 3:
				if got := table.Newest(key); (got == nil) != (at < 0) || got != nil && (got != open[at] || !table.Reopen(got, nil)) {
					t.Fatalf("newest is %v", got)
				}
			case 4:
				if rapid.IntRange(0, 9).Draw(t, "drain") == 0 {
					if got := table.Drain(); len(got) != len(open) {
						t.Fatalf("drained %d of %d", len(got), len(open))
					}
					open = nil
				}
			}
			if got := table.List(); len(got) != len(open) || table.None() != (len(open) == 0) {
				t.Fatalf("%d open, want %d", len(got), len(open))
			}
		}
		table.Drain()
		select {
		case <-idle:
		default:
			t.Fatal("not idle")
		}
		<-table.Idle()
	})
}

// TestRequestsThatAreSentAgain checks whether the other side gets a request again that was refused, and whether it is recalled, if it is cancelled meanwhile.
func TestRequestsThatAreSentAgain(t *testing.T) {
	for _, test := range []struct {
		name                        string
		before, between             bool // the request is cancelled before it is known to be refused, or before it is sent again
		recalled, sentAgain, waited bool
	}{
		{"not cancelled", false, false, false, true, true},
		{"cancelled before it is refused", true, false, false, false, true},
		{"cancelled before it is sent again", false, true, true, false, true},
	} {
		c := request("1")
		recalled := false
		if c.Sends(); test.before {
			recalled = c.Recall()
		}
		c.Refused()
		waited := c.Waits()
		if test.between {
			recalled = c.Recall()
		}
		again := c.SendsAgain()
		if recalled != test.recalled || waited != test.waited || again != test.sentAgain || again != c.WasSentAgain() {
			t.Errorf("%s: recalled %t, waits %t, sent again %t, which is known: %t", test.name, recalled, waited, again, c.WasSentAgain())
		}
		if again && c.Recall() {
			t.Errorf("%s: it is recalled though the other side has it", test.name)
		}
	}
}
