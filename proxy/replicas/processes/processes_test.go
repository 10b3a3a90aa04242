package processes

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

// sessions are the sessions of a test, each with a process; the longest idle one first.
type sessions struct {
	*Limit
	idle []*Place
}

func newSessions(most int) *sessions {
	s := &sessions{}
	s.Limit = New(func() int { return most }, func(of func(string) bool) bool {
		for i, p := range s.idle {
			if of(p.client) {
				s.idle = append(s.idle[:i:i], s.idle[i+1:]...)
				p.Ending()
				go func() {
					time.Sleep(time.Second) // until the process has ended
					p.Free()
				}()
				return true
			}
		}
		return false
	})
	return s
}

func (s *sessions) begin(client string) error {
	p, err := s.Take(For(context.Background(), client))
	if err == nil {
		s.idle = append(s.idle, p)
	}
	return err
}

// holds checks how many processes each client has.
func (s *sessions) holds(t *testing.T, want map[string]int) {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	all := 0
	for client, n := range want {
		if all += n; s.of[client] != n {
			t.Errorf("%s has %d processes, want %d", client, s.of[client], n)
		}
	}
	if len(s.running) != all || len(s.of) != len(want) {
		t.Errorf("%d processes of %v", len(s.running), s.of)
	}
}

func TestOneClientMayHaveAllFreePlaces(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSessions(8)
		for range 20 {
			if err := s.begin("a"); err != nil {
				t.Fatal(err)
			}
			if s.Running() > 8 {
				t.Fatalf("%d processes", s.Running())
			}
		}
		s.holds(t, map[string]int{"a": 8})
		for range 5 { // a quarter of all is b's, and no more while a has no more than that
			if err := s.begin("b"); err != nil {
				t.Fatal(err)
			}
		}
		s.holds(t, map[string]int{"a": 6, "b": 2})
	})
}

func TestBusyProcessesAreNotStopped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSessions(4)
		for range 4 {
			if err := s.begin("a"); err != nil {
				t.Fatal(err)
			}
		}
		busy := s.idle
		s.idle = nil
		for _, client := range []string{"a", "b"} {
			if err := s.begin(client); !errors.Is(err, ErrFull) {
				t.Errorf("%s: %v", client, err)
			}
		}
		if len(s.queue) != 0 || s.promise != 0 {
			t.Errorf("%d wait, %d promised", len(s.queue), s.promise)
		}
		busy[0].Free()
		if err := s.begin("b"); err != nil {
			t.Error(err)
		}
	})
}

// TestAnEndingProcessIsWaitedFor: Take waits for a place that is about to be free, and no other
// session ends for it.
func TestAnEndingProcessIsWaitedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSessions(2)
		for range 2 {
			if err := s.begin("a"); err != nil {
				t.Fatal(err)
			}
		}
		leaving := s.idle[0]
		s.idle = s.idle[1:]
		leaving.Ending()
		go func() {
			time.Sleep(3 * time.Second)
			leaving.Free()
		}()
		if err := s.begin("a"); err != nil {
			t.Fatal(err)
		}
		s.holds(t, map[string]int{"a": 2})
		ctx, cancel := context.WithTimeout(For(context.Background(), "a"), time.Millisecond)
		defer cancel()
		s.idle[0].Ending()
		if _, err := s.Take(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("a client that has left: %v", err)
		}
	})
}
