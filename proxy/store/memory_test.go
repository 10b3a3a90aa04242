package store_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dragoman-proxy/dragoman/proxy/store"
	"github.com/dragoman-proxy/dragoman/proxy/store/storetest"
)

func TestMemory(t *testing.T) {
	engines := map[*testing.T]store.Engine{}
	storetest.ContractInBubbles(t, func(t *testing.T) store.Engine {
		if engines[t] == nil {
			engines[t] = store.NewMemory(store.Bounds{})
		}
		return engines[t]
	})
}

func TestMemoryIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx := context.Background()
		for what, b := range map[string]store.Bounds{"bytes": {Bytes: 9 << 10}, "entries": {Entries: 9}} {
			s := store.New(store.NewMemory(b), store.Options{})
			var err error
			n := 0
			for ; err == nil && n < 100; n++ {
				err = s.Set(ctx, store.Key{Kind: "x", Name: fmt.Sprint(n)}, make([]byte, 800), 200*time.Millisecond)
			}
			if !errors.Is(err, store.ErrFull) || n != 10 {
				t.Errorf("%s: %d values, then %v", what, n, err)
			}
			if err := s.Set(ctx, store.Key{Kind: "x", Name: "0"}, make([]byte, 800), 200*time.Millisecond); err != nil {
				t.Errorf("%s: in place of another: %v", what, err)
			}
			if err := s.Join(ctx, store.Key{Kind: "set"}, []byte("a"), time.Minute); what == "entries" && !errors.Is(err, store.ErrFull) {
				t.Errorf("%s: a set: %v", what, err)
			}
			time.Sleep(time.Minute)
			if err := s.Set(ctx, store.Key{Kind: "x", Name: "new"}, make([]byte, 800), time.Minute); err != nil {
				t.Errorf("%s: what has expired takes room: %v", what, err)
			}
			s.Close()
		}
	})
}
