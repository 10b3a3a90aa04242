package adapters

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/dragoman-proxy/dragoman/adapterrt"
	"github.com/dragoman-proxy/dragoman/adapterrt/guard"
	"github.com/dragoman-proxy/dragoman/proxy/ops/metrics"
	"github.com/dragoman-proxy/dragoman/proxy/store"
	"github.com/dragoman-proxy/dragoman/proxy/store/storetest"
)

const sharedFile = `---
name: test-api
type: adapter
version: "1.0.0"
description: An API for tests
target: {base_url: "BASE", transport: http, protocol: rest, serialization: json}
LIMITS
operations:
  read:
  - {name: get_it, maps_to: GET /it, description: G}
  delete:
  - {name: delete_it, maps_to: DELETE /it, description: D, params: {id: {type: string}}, danger: {level: destructive, requires_confirmation: true}}
---
# Docs
`

// replicasOf returns runtimes of one adapter with these limits, one for each store, and the number of calls that reached the API.
func replicasOf(t *testing.T, stores []*store.Store, limits string, log *zap.Logger) (all []*adapterrt.Runtime, calls *atomic.Int32) {
	t.Helper()
	calls = new(atomic.Int32)
	api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		calls.Add(1)
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprint(w, "1")
	}))
	t.Cleanup(api.Close)
	file := filepath.Join(t.TempDir(), "test-api-adapter.md")
	text := strings.NewReplacer("BASE", api.URL, "LIMITS", limits).Replace(sharedFile)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, s := range stores {
		rt, err := adapterrt.New(adapterrt.Options{
			CursorKey: make([]byte, 32), InsecureHosts: []string{"127.0.0.1"}, ConfirmVia: guard.ConfirmToken,
			Replicas: newShared(s, metrics.New("test", none, none), log),
		})
		if err != nil {
			t.Fatal(err)
		}
		if problems, err := rt.Load([]string{file}); err != nil {
			t.Fatal(problems, err)
		}
		t.Cleanup(rt.Close)
		all = append(all, rt)
	}
	return all, calls
}

func ask(rt *adapterrt.Runtime, session, body string) string {
	r := rt.Dispatch(context.Background(), adapterrt.Endpoint{}, &adapterrt.Request{Body: []byte(body), Session: session})
	return string(r.JSON())
}

func none() float64 { return 0 }

const getIt = `{"operation":"get_it"}`

func tokenOf(t *testing.T, answer, name string) string {
	t.Helper()
	var v struct {
		Error struct{ Details map[string]any }
	}
	if err := json.Unmarshal([]byte(answer), &v); err != nil {
		t.Fatal(err)
	}
	token, _ := v.Error.Details[name].(string)
	if token == "" {
		t.Fatalf("no token in %s", answer)
	}
	return token
}

func TestCallsWithoutLimitsAskNoStore(t *testing.T) {
	stores, counters := storetest.Memory(t, 1)
	all, calls := replicasOf(t, stores, "", zap.NewNop())
	for range 20 {
		ask(all[0], "s", getIt)
	}
	if n := counters[0].Total(); n != 0 || calls.Load() != 20 {
		t.Errorf("%d uses of the store in %d calls: %v", n, calls.Load(), counters[0].Uses())
	}
}

func TestALimitedCallAsksOnce(t *testing.T) {
	stores, counters := storetest.Memory(t, 1)
	all, _ := replicasOf(t, stores, "rate_limits: {requests_per_minute: 100, requests_per_day: 1000, quotas: {limits: [{metric: requests_per_day, hard_stop: 900}]}}", zap.NewNop())
	for range 20 {
		ask(all[0], "s", getIt)
	}
	if n := counters[0].Total(); n != 20 {
		t.Errorf("%d uses in 20 calls: %v", n, counters[0].Uses())
	}
}

func TestNoLimitIsExceededByThreeReplicas(t *testing.T) {
	for name, limits := range map[string]string{
		"rate":  "rate_limits: {requests_per_hour: 10}",
		"quota": "rate_limits: {quotas: {limits: [{metric: requests_per_day, hard_stop: 10}]}}",
	} {
		t.Run(name, func(t *testing.T) {
			stores, _ := storetest.Memory(t, 3)
			all, calls := replicasOf(t, stores, limits, zap.NewNop())
			var wg sync.WaitGroup
			for i := range 90 {
				wg.Go(func() { ask(all[i%3], "s", getIt) })
			}
			wg.Wait()
			if n := calls.Load(); n != 10 {
				t.Errorf("%d calls, want 10", n)
			}
		})
	}
}

func TestATokenWorksOnceAnywhere(t *testing.T) {
	stores, _ := storetest.Memory(t, 3)
	all, calls := replicasOf(t, stores, "", zap.NewNop())
	token := tokenOf(t, ask(all[0], "s", `{"operation":"delete_it","params":{"id":"a"}}`), "confirmation_token")
	confirmed := func(session, id string) (session2, body string) {
		return session, `{"operation":"delete_it","params":{"id":"` + id + `","_confirmation":"` + token + `"}}`
	}
	for _, c := range [][2]string{{"other", "a"}, {"s", "b"}} {
		if got := ask(all[1], c[0], second(confirmed(c[0], c[1]))); !strings.Contains(got, "TOKEN_SCOPE_MISMATCH") {
			t.Error(got)
		}
	}
	var wg sync.WaitGroup
	var used atomic.Int32
	for i := range 30 {
		wg.Go(func() {
			if strings.Contains(ask(all[i%3], "s", second(confirmed("s", "a"))), "TOKEN_ALREADY_USED") {
				used.Add(1)
			}
		})
	}
	wg.Wait()
	if calls.Load() != 1 || used.Load() != 29 {
		t.Errorf("%d calls, %d refused", calls.Load(), used.Load())
	}
}

func second(_, b string) string { return b }

func TestAPausedQuotaGoesOnAnywhere(t *testing.T) {
	stores, _ := storetest.Memory(t, 2)
	all, calls := replicasOf(t, stores, "rate_limits: {quotas: {limits: [{metric: requests_per_day, pause: 2, hard_stop: 4}]}}", zap.NewNop())
	ask(all[0], "s", getIt)
	ask(all[1], "s", getIt)
	token := tokenOf(t, ask(all[0], "s", getIt), "continue_token")
	for range 3 {
		ask(all[1], "s", `{"operation":"get_it","params":{"_quota_continue":"`+token+`"}}`)
	}
	if calls.Load() != 4 {
		t.Errorf("%d calls", calls.Load())
	}
}

// broken is an engine that does not answer while it is stopped.
type broken struct {
	*store.Memory
	stopped atomic.Bool
}

var errStopped = errors.New("connection refused")

func (b *broken) Charge(ctx context.Context, key string, c *store.Charge) (store.Charged, error) {
	if b.stopped.Load() {
		return store.Charged{}, errStopped
	}
	return b.Memory.Charge(ctx, key, c)
}

func (b *broken) Set(ctx context.Context, key string, value []byte, ttl time.Duration) error {
	if b.stopped.Load() {
		return errStopped
	}
	return b.Memory.Set(ctx, key, value, ttl)
}

func (b *broken) Swap(ctx context.Context, key string, tags [][]byte, value []byte, ttl time.Duration) (bool, error) {
	if b.stopped.Load() {
		return false, errStopped
	}
	return b.Memory.Swap(ctx, key, tags, value, ttl)
}

func TestWithoutAnEngineAReplicaDecidesAlone(t *testing.T) {
	engine := &broken{Memory: store.NewMemory(store.Bounds{})}
	s := store.New(engine, store.Options{Keys: storetest.Keys(1)})
	t.Cleanup(func() { s.Close() })
	core, logs := observer.New(zap.InfoLevel)
	all, calls := replicasOf(t, []*store.Store{s}, "rate_limits: {requests_per_hour: 3}", zap.New(core))
	const ask1 = `{"operation":"delete_it","params":{"id":"a"}}`
	token := tokenOf(t, ask(all[0], "s", ask1), "confirmation_token")
	engine.stopped.Store(true)
	for _, body := range []string{ask1, `{"operation":"delete_it","params":{"id":"a","_confirmation":"` + token + `"}}`} {
		if got := ask(all[0], "s", body); !strings.Contains(got, "CONFIRMATION_UNAVAILABLE") || !strings.Contains(got, "was not run") || strings.Contains(got, "refused") {
			t.Error(got)
		}
	}
	for range 5 {
		ask(all[0], "s", getIt)
	}
	if calls.Load() != 3 {
		t.Errorf("%d calls", calls.Load())
	}
	if n := logs.FilterMessageSnippet("by this replica alone").Len(); n != 1 {
		t.Errorf("%d lines", n)
	}
}
