package store

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// failing is an engine that is not there until its server has started.
type failing struct {
	*Memory
	mu sync.Mutex
	up bool
}

func (f *failing) turn(up bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.up = up
}

func (f *failing) Ping(context.Context) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.up {
		return errors.New("not there")
	}
	return nil
}

func (f *failing) Set(ctx context.Context, _ string, _ []byte, _ time.Duration) error {
	return f.Ping(ctx)
}

// TestChangesAreToldInTheirOrder: an engine that goes down again while Changed is told that it is up.
func TestChangesAreToldInTheirOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		engine := &failing{Memory: NewMemory(Bounds{})}
		var mu sync.Mutex
		var told []bool
		s := New(engine, Options{Changed: func(up bool, _ error) {
			if up {
				engine.turn(false)
				time.Sleep(time.Second)
			}
			mu.Lock()
			defer mu.Unlock()
			told = append(told, up)
		}})
		use := func() {
			for range 2 * failures {
				_ = s.Set(t.Context(), Key{Kind: "x"}, nil, time.Minute)
			}
		}
		use()
		engine.turn(true)
		for range 300 {
			time.Sleep(10 * time.Millisecond)
			use()
		}
		s.Close()
		mu.Lock()
		defer mu.Unlock()
		if !slices.Equal(told, []bool{false, true, false}) {
			t.Errorf("told %v, want down, up, down", told)
		}
	})
}

// TestAFreeStoreIsNotBusy: an operation whose time is over before it begins is not one too many.
func TestAFreeStoreIsNotBusy(t *testing.T) {
	s := New(NewMemory(Bounds{}), Options{Timeout: 1})
	defer s.Close()
	for range 100 {
		if err := s.Set(t.Context(), Key{Kind: "x"}, nil, time.Minute); errors.Is(err, errBusy) {
			t.Fatal(err)
		}
	}
}
