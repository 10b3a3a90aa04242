package session

import "testing"

// TestLeaving: what is to be done is done once, and is bounded; a call that the client has left takes no more.
func TestLeaving(t *testing.T) {
	var none *Leaving
	if none.Left(); !none.Then(nil) {
		t.Error("nothing to leave refuses something")
	}
	var l Leaving
	done := 0
	for n := range 2 * maxLeaving {
		if l.Then(func() { done++ }) != (n < maxLeaving) {
			t.Fatalf("%d things to do", n)
		}
	}
	l.Left()
	l.Left()
	if l.Then(func() { done++ }) || done != maxLeaving {
		t.Errorf("%d things were done", done)
	}
}
