//go:build unix

package adapters

import (
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"go.uber.org/zap"

	"github.com/dragoman-proxy/dragoman/proxy/store"
	"github.com/dragoman-proxy/dragoman/proxy/store/redisstore"
	"github.com/dragoman-proxy/dragoman/proxy/store/storetest"
	"github.com/dragoman-proxy/dragoman/proxy/tests/peertest"
)

// connected returns stores of three replicas at one server.
func connected(t *testing.T, r *storetest.Redis, timeout time.Duration) (stores []*store.Store) {
	t.Helper()
	for range 3 {
		s := store.New(redisstore.New(redisstore.Options{Network: "tcp", Addresses: []string{r.Address}}), store.Options{Keys: storetest.Keys(1), Prefix: "t:", Timeout: timeout})
		t.Cleanup(func() { s.Close() })
		stores = append(stores, s)
	}
	return stores
}

const deleteIt = `{"operation":"delete_it","params":{"id":"a"}}`

func confirmedBy(token string) string {
	return `{"operation":"delete_it","params":{"id":"a","_confirmation":"` + token + `"}}`
}

func TestThreeReplicasAtARealServer(t *testing.T) {
	all, calls := replicasOf(t, connected(t, storetest.StartRedis(t), peertest.Patience), "rate_limits: {requests_per_hour: 10}", zap.NewNop())
	token := tokenOf(t, ask(all[0], "s", deleteIt), "confirmation_token")
	var wg sync.WaitGroup
	for i := range 30 {
		wg.Go(func() { ask(all[i%3], "s", confirmedBy(token)) })
	}
	wg.Wait()
	if calls.Load() != 1 {
		t.Fatalf("%d calls with one token", calls.Load())
	}
	for i := range 60 {
		wg.Go(func() { ask(all[i%3], "s", getIt) })
	}
	wg.Wait()
	if calls.Load() != 10 {
		t.Errorf("%d calls, want 10", calls.Load())
	}
}

// TestFaultsOfARealServer: confirmations are refused and limits are counted alone while the server cannot be used, ordinary
// calls go on, and all is as before when it can be used again, without a restart.
func TestFaultsOfARealServer(t *testing.T) {
	for name, fault := range map[string]struct {
		begin, end func(r *storetest.Redis)
		forgets    bool
	}{
		"stopped, restarted empty": {func(r *storetest.Redis) { r.Stop() }, func(r *storetest.Redis) { r.Start() }, true},
		"paused": {
			func(r *storetest.Redis) { syscall.Kill(r.Pid(), syscall.SIGSTOP) },
			func(r *storetest.Redis) { syscall.Kill(r.Pid(), syscall.SIGCONT) }, false,
		},
		"full": {
			func(r *storetest.Redis) { r.Ask("config set maxmemory 1") },
			func(r *storetest.Redis) { r.Ask("config set maxmemory 0") }, false,
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := storetest.StartRedis(t)
			all, calls := replicasOf(t, connected(t, r, time.Second), "rate_limits: {requests_per_hour: 6}", zap.NewNop())
			token := tokenOf(t, ask(all[0], "s", deleteIt), "confirmation_token")
			fault.begin(r)
			for _, body := range []string{deleteIt, confirmedBy(token)} {
				if got := ask(all[1], "s", body); !strings.Contains(got, "CONFIRMATION_UNAVAILABLE") {
					t.Errorf("%s: %s", body, got)
				}
			}
			for range 2 {
				if got := ask(all[2], "s", getIt); !strings.Contains(got, `"success":true`) {
					t.Error(got)
				}
			}
			if calls.Load() != 2 {
				t.Errorf("%d calls", calls.Load())
			}
			fault.end(r)
			peertest.Eventually(t, "the store is there again", func() bool { return strings.Contains(ask(all[1], "s", deleteIt), "CONFIRMATION_REQUIRED") })
			got := ask(all[1], "s", confirmedBy(token))
			if fault.forgets != strings.Contains(got, "TOKEN_INVALID") || fault.forgets == strings.Contains(got, `"success":true`) {
				t.Errorf("the token from before: %s", got)
			}
		})
	}
}
