package main

import (
	"net/http"
	"testing"
)

// onItsOwn returns a client of a server without sessions, with no proxy between them.
func onItsOwn(t *testing.T) *modernClient {
	s, err := startServer(http.HandlerFunc(modernServer))
	if err != nil {
		t.Fatal(err)
	}
	c := &counts{}
	g, done := c.modernClient(func() []string { return []string{s.url} }, 1)
	t.Cleanup(func() { done(); s.close() })
	return g
}

func TestModernClientsCountWrongAnswers(t *testing.T) {
	g := onItsOwn(t)
	g.behave(t.Context(), g.call(echo, ""))
	if g.good.Load() != 1 || g.failed.Load() != 0 {
		t.Fatal(g.counts)
	}
	s := g.call(echo, "")
	a := g.send(t.Context(), g.anywhere(), s)
	g.shown = maxShown // the next calls are to fail, and print nothing
	g.expect(t.Context(), "another's", a, "somebody's")
	g.refused(t.Context(), "not refused", a, stateRefused)
	if g.wrong.Load() != 1 || g.failed.Load() != 1 || g.judge("modern clients") == nil {
		t.Error(g.counts)
	}
}

func TestModernClientsAnswerQuestions(t *testing.T) {
	g := onItsOwn(t)
	s := g.call(ask, "")
	a := g.send(t.Context(), g.anywhere(), s)
	if !a.asks() || a.question() != "where" {
		t.Fatal(a)
	}
	g.expect(t.Context(), "answered", g.send(t.Context(), g.anywhere(), g.retry(s, a.state(), a.question(), "Rome")), s.text+" in Rome")
	if g.good.Load() != 1 {
		t.Error(g.counts)
	}
}

func TestHostsAnswerQuestions(t *testing.T) {
	s, err := startServer(newCurious())
	if err != nil {
		t.Fatal(err)
	}
	defer s.close()
	c := &counts{}
	v, done := c.visitor(s.url, 1)
	defer done()
	for range 5 {
		if err := (&host{v}).stay(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if c.good.Load() == 0 || c.wrong.Load() != 0 || c.seen["asked, answered"] == 0 {
		t.Error(c)
	}
}
