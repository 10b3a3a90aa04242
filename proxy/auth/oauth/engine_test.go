package oauth

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"

	"github.com/dragoman-proxy/dragoman/proxy/auth/oauth/oauthtest"
	"github.com/dragoman-proxy/dragoman/proxy/store"
	"github.com/dragoman-proxy/dragoman/proxy/tests/peertest"
)

// faulty is an engine that a test can stop, or fill.
type faulty struct {
	*store.Memory
	down, full *atomic.Bool
}

func newFaulty() faulty {
	return faulty{store.NewMemory(store.Bounds{}), new(atomic.Bool), new(atomic.Bool)}
}

func (f faulty) fault(write bool) error {
	switch {
	case f.down.Load():
		return errors.New("connection refused")
	case write && f.full.Load():
		return store.ErrFull
	}
	return nil
}

func (f faulty) Ping(ctx context.Context) error {
	return errors.Join(f.fault(false), f.Memory.Ping(ctx))
}

func (f faulty) Get(ctx context.Context, key string) ([]byte, error) {
	if err := f.fault(false); err != nil {
		return nil, err
	}
	return f.Memory.Get(ctx, key)
}

func (f faulty) Add(ctx context.Context, key string, value []byte, ttl time.Duration) (bool, error) {
	if err := f.fault(len(value) > 40); err != nil { // locks are small
		return false, err
	}
	return f.Memory.Add(ctx, key, value, ttl)
}

func (f faulty) Swap(ctx context.Context, key string, tags [][]byte, value []byte, ttl time.Duration) (bool, error) {
	if err := f.fault(value != nil); err != nil {
		return false, err
	}
	return f.Memory.Swap(ctx, key, tags, value, ttl)
}

func (f faulty) Close() error { return nil } // several Stores share it

// replica returns the token store of another replica over f, and what it logs.
func (f faulty) replica(t *testing.T) (*Store, *observer.ObservedLogs) {
	t.Helper()
	engine := store.New(f, store.Options{Keys: [][]byte{make([]byte, 32)}, Timeout: peertest.Patience})
	core, seen := observer.New(zapcore.DebugLevel)
	s := NewShared(func() (*store.Store, error) { return engine, nil }, zap.New(core))
	t.Cleanup(s.Close)
	return s, seen
}

func (f faulty) account(t *testing.T, s *oauthtest.Server) *Account {
	t.Helper()
	kept, _ := f.replica(t)
	return accountIn(t, s, kept)
}

func accountIn(t *testing.T, s *oauthtest.Server, kept *Store) *Account {
	t.Helper()
	a, err := NewAccount(Config{Server: s.URL}, kept, zap.NewNop())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(a.Close)
	return a
}

// TestReplicasRefreshOnce: of all replicas, one refreshes, and the others read what it has stored. The authorization
// server ends the sign-in when a refresh token comes twice.
func TestReplicasRefreshOnce(t *testing.T) {
	s, f := oauthtest.New(t, oauthtest.Options{TokenLife: time.Minute}), newFaulty()
	if err := f.account(t, s).SignIn(t.Context(), agreeing{s}); err != nil {
		t.Fatal(err)
	}
	var accounts []*Account
	for range 3 {
		accounts = append(accounts, f.account(t, s))
	}
	for round := range 3 {
		s.RevokeAccess()
		var all sync.WaitGroup
		for i := range 30 {
			all.Go(func() {
				if status, err := call(t, accounts[i%len(accounts)], s); status != http.StatusOK {
					t.Error(round, status, err)
				}
			})
		}
		all.Wait()
	}
	if c := s.Counts(); c.Refreshes != 3 || c.Authorizations != 1 {
		t.Errorf("%+v", c)
	}
}

// TestNoRefreshWithoutTheEngine: while it is down no replica refreshes, the token is used until it expires, and then
// calls fail with the reason. Once it is back, they succeed.
func TestNoRefreshWithoutTheEngine(t *testing.T) {
	s, f := oauthtest.New(t, oauthtest.Options{TokenLife: time.Minute}), newFaulty()
	a := f.account(t, s)
	if err := a.SignIn(t.Context(), agreeing{s}); err != nil {
		t.Fatal(err)
	}
	if status, err := call(t, a, s); status != http.StatusOK {
		t.Fatal(status, err)
	}
	f.down.Store(true)
	if status, err := call(t, a, s); status != http.StatusOK {
		t.Error("with a token that is good:", status, err)
	}
	a.now = func() time.Time { return time.Now().Add(58 * time.Second) }
	if value, err := a.Header(t.Context()); value == "" || err != nil {
		t.Error("with a token that is due:", value, err)
	}
	a.now = func() time.Time { return time.Now().Add(time.Hour) }
	if value, err := a.Header(t.Context()); value != "" || !errors.Is(err, store.ErrUnavailable) || !strings.Contains(err.Error(), "cannot lock the stored tokens") {
		t.Error("with a token that has expired:", value, err)
	}
	if n := s.Counts().Refreshes; n != 0 {
		t.Error(n, "refreshes")
	}
	f.down.Store(false)
	a.now = time.Now
	s.RevokeAccess()
	peertest.Eventually(t, "the call succeeds", func() bool { status, _ := call(t, a, s); return status == http.StatusOK })
	if c := s.Counts(); c.Refreshes != 1 || c.Authorizations != 1 {
		t.Errorf("%+v", c)
	}
}

// TestTokensThatTheEngineDoesNotTake: they are kept in memory, and stored once it takes them.
func TestTokensThatTheEngineDoesNotTake(t *testing.T) {
	f := newFaulty()
	a, seen := f.replica(t)
	b, _ := f.replica(t)
	if err := put(t, a, `{"refresh_token":"first"}`); err != nil {
		t.Fatal(err)
	}
	f.full.Store(true)
	if err := put(t, a, token); !errors.Is(err, store.ErrFull) {
		t.Error(err)
	}
	if got, err := get(t, a); got != token || err != nil {
		t.Error(got, err)
	}
	if got, err := get(t, b); strings.Contains(got, "canary") || err != nil {
		t.Error(got, err)
	}
	f.full.Store(false)
	peertest.Eventually(t, "the other replica has the token", func() bool { got, err := get(t, b); return got == token && err == nil })
	peertest.Eventually(t, "it is logged", func() bool { return seen.FilterMessageSnippet("stored again").Len() > 0 }) // after it is stored
	for _, line := range seen.All() {
		if text := line.Message; strings.Contains(text, "canary") {
			t.Error(text)
		}
	}
	if seen.FilterMessageSnippet("stored as soon as").Len() != 1 || seen.FilterMessageSnippet("stored again").Len() != 1 {
		t.Error(seen.All())
	}
}

// TestAnotherReplicaHasWritten: what a replica could not write does not replace what another one has written since,
// and neither does what a replica writes that has lost its lock.
func TestAnotherReplicaHasWritten(t *testing.T) {
	f := newFaulty()
	a, _ := f.replica(t)
	b, _ := f.replica(t)
	const newer = `{"refresh_token":"newer"}`
	f.full.Store(true)
	if err := put(t, a, token); err == nil {
		t.Error("stored")
	}
	f.full.Store(false)
	if err := put(t, b, newer); err != nil {
		t.Fatal(err)
	}
	if got, err := get(t, a); got != newer && got != token || err != nil {
		t.Error(got, err)
	}
	peertest.Eventually(t, "the first replica has the newer token", func() bool { got, _ := get(t, a); return got == newer })

	last := ""
	if err := a.Locked(t.Context(), id, func(e Entry) {
		data, _ := e.Get()
		last = string(data)
		h := e.(*engineEntry)
		if ok, err := b.exchange(t.Context(), id, data, []byte(token)); !ok || err != nil { // as after the loss of the lock
			t.Error(ok, err)
		}
		if err := e.Put([]byte(newer)); !errors.Is(err, errReplaced) {
			t.Error(err, h.known)
		}
	}); err != nil {
		t.Fatal(err)
	}
	if got, err := get(t, a); got != token || err != nil || last != newer {
		t.Error(got, err, last)
	}
}

// TestAccountsInTheEngine: another process lists them, and logs them out.
func TestAccountsInTheEngine(t *testing.T) {
	s, f := oauthtest.New(t, oauthtest.Options{}), newFaulty()
	if err := f.account(t, s).SignIn(t.Context(), agreeing{s}); err != nil {
		t.Fatal(err)
	}
	kept, _ := f.replica(t)
	all, err := List(t.Context(), kept)
	if err != nil || len(all) != 1 || all[0].Server != s.URL || !all[0].Signed || !all[0].Sealed {
		t.Fatalf("%+v %v", all, err)
	}
	accounts, err := Accounts(kept, zap.NewNop())
	if err != nil || len(accounts) != 1 {
		t.Fatal(len(accounts), err)
	}
	if known, revoked, err := accounts[0].Logout(t.Context()); !known || !revoked || err != nil {
		t.Error(known, revoked, err)
	}
	if all, err := List(t.Context(), kept); err != nil || len(all) != 0 {
		t.Errorf("%+v %v", all, err)
	}
	f.down.Store(true)
	if _, err := List(t.Context(), kept); !errors.Is(err, store.ErrUnavailable) {
		t.Error(err)
	}
}

// TestTheEngineIsLockedForOneReplica: each account has a lock of its own.
func TestTheEngineIsLockedForOneReplica(t *testing.T) {
	f := newFaulty()
	a, _ := f.replica(t)
	b, _ := f.replica(t)
	if err := a.Locked(t.Context(), id, func(Entry) {
		ctx, stop := context.WithTimeout(t.Context(), 30*time.Millisecond)
		defer stop()
		if err := b.Locked(ctx, id, func(Entry) { t.Error("both have it") }); !errors.Is(err, context.DeadlineExceeded) {
			t.Error(err)
		}
		if err := b.Locked(t.Context(), "another", func(Entry) {}); err != nil {
			t.Error(err)
		}
	}); err != nil {
		t.Fatal(err)
	}
	if err := b.Locked(t.Context(), id, func(Entry) {}); err != nil {
		t.Error(err)
	}
}
