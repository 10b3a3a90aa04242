package shape

import (
	"bytes"
	"errors"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/dragoman-proxy/dragoman/proxy/bytes/large"
	"github.com/dragoman-proxy/dragoman/proxy/config"
	"github.com/dragoman-proxy/dragoman/proxy/ops/host"
	"github.com/dragoman-proxy/dragoman/proxy/ops/metrics"
	"github.com/dragoman-proxy/dragoman/proxy/ops/report"
	"github.com/dragoman-proxy/dragoman/proxy/store"
	"github.com/dragoman-proxy/dragoman/proxy/store/storetest"
)

// TestOriginalsAreSharedByReplicas, and by nothing where replicas share no store.
func TestOriginalsAreSharedByReplicas(t *testing.T) {
	alone := store.New(store.NewMemory(store.Bounds{}), store.Options{})
	defer alone.Close()
	if newOriginals(nil) != nil || newOriginals(alone) != nil {
		t.Error("originals are kept where only this process finds them")
	}
	ctx := t.Context()
	stores, _ := storetest.Memory(t, 2)
	a, b := newOriginals(stores[0]), newOriginals(stores[1])
	for _, name := range []string{"one", "two"} {
		if err := a.Put(ctx, name, []byte(name), time.Minute); err != nil {
			t.Fatal(err)
		}
		if got, err := b.Get(ctx, name); err != nil || string(got) != name {
			t.Errorf("%q, %v", got, err)
		}
	}
	if err := b.Delete(ctx, "one", "none", "two"); err != nil {
		t.Error(err)
	}
	if got, err := a.Get(ctx, "one"); err != nil || got != nil {
		t.Errorf("a deleted one is %q, %v", got, err)
	}
}

// TestOriginalsThatAreNotWritten are named in the log of the proxy, once that runs.
func TestOriginalsThatAreNotWritten(t *testing.T) {
	stores, _ := storetest.Memory(t, 1)
	cfg := config.Default()
	none := func() float64 { return 0 }
	core, logs := observer.New(zap.DebugLevel)
	o := newOriginals(stores[0])
	tooLarge := bytes.Repeat([]byte("x"), store.DefaultMaxValue+1)
	if err := o.Put(t.Context(), "large", tooLarge, time.Minute); !errors.Is(err, store.ErrTooLarge) || logs.Len() != 0 {
		t.Errorf("%v, %d lines", err, logs.Len())
	}
	ran := false
	o.beside(func() { ran = true })
	if !ran {
		t.Error("before the proxy runs, a write is not done at once")
	}
	h := host.New(zap.New(core), metrics.New("v0", none, none), large.NewMemory(1<<20), "v0", func() report.Setup { return report.Setup{Config: &cfg} })
	o.host.Store(h)
	_ = o.Put(t.Context(), "large", tooLarge, time.Minute)
	o.Skipped()
	if logs.FilterMessageSnippet("only this replica can serve the rest").Len() != 2 {
		t.Error(logs.All())
	}
	done := make(chan struct{})
	o.beside(func() { <-done })
	close(done)
	h.Wait()
}
