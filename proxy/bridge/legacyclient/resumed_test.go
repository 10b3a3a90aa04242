package legacyclient

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/dragoman-proxy/dragoman/proxy/replicas/sealed"
	"github.com/dragoman-proxy/dragoman/proxy/store"
	"github.com/dragoman-proxy/dragoman/proxy/store/changes"
	"github.com/dragoman-proxy/dragoman/proxy/store/ended"
	"github.com/dragoman-proxy/dragoman/proxy/store/storetest"
	"github.com/dragoman-proxy/dragoman/proxy/tests/peertest"
	"github.com/dragoman-proxy/dragoman/translate"
)

// replica returns a bridge of a replica that uses this store.
func replica(t *testing.T, shared *store.Store) *Bridge {
	t.Helper()
	b := newBridge(t)
	b = New(b.host, nil, nil, b.lists)
	b.host.Store, b.host.Changes = shared, changes.Open(shared, func() {})
	t.Cleanup(b.host.Changes.Close)
	return b
}

func aSession() sealed.Session {
	return sealed.Session{
		Made: time.Now(), Serial: ended.Serial{Process: 1, Number: 2},
		ClientRevision: translate.Oldest(), ServerRevision: translate.Lookup(translate.Modern()),
	}
}

// TestUnusedResumptionTakesNoNews: two requests may resume one session at the same time. The Conn of the slower one is not
// used: what other replicas change must reach the other Conn, and nothing may keep this one.
func TestUnusedResumptionTakesNoNews(t *testing.T) {
	shared, _ := storetest.Memory(t, 2)
	b, session := replica(t, shared[0]), aSession()
	used := b.Resume(session, nil)
	used.Resumed(&session)
	unused := b.Resume(session, nil)
	if !used.shared.stale.Load() {
		t.Error("the state that the other process has stored is not read")
	}
	used.shared.stale.Store(false)
	if err := replica(t, shared[1]).host.Changes.Tell(t.Context(), used.shared.key.Name); err != nil {
		t.Fatal(err)
	}
	peertest.Eventually(t, "the Conn in use is told of a change", used.shared.stale.Load)
	if unused.shared.stale.Load() {
		t.Error("the other Conn is told, too")
	}
}

// refusingEngine replaces no value.
type refusingEngine struct{ *store.Memory }

func (refusingEngine) Swap(context.Context, string, [][]byte, []byte, time.Duration) (bool, error) {
	return false, store.ErrRejected
}

// TestReplicasChangeASessionAtOnce: what each of them changes is kept, although none has read what the other one has written.
func TestReplicasChangeASessionAtOnce(t *testing.T) {
	stores, _ := storetest.Memory(t, 3)
	session := aSession()
	var replicas []*Conn
	for _, s := range stores {
		c := replica(t, s).Resume(session, nil)
		c.Named(&session)
		replicas = append(replicas, c)
	}
	a, b := replicas[0], replicas[1]
	change := func(c *Conn, do func()) {
		c.mu.Lock()
		do()
		c.mu.Unlock()
		c.save(t.Context())
	}
	stored := func(level string, uris ...string) {
		t.Helper()
		var got state
		value, err := stores[2].Get(t.Context(), a.shared.key)
		if err == nil {
			err = json.Unmarshal(value, &got)
		}
		if err != nil || got.Level != level || !slices.Equal(got.Subscriptions, uris) {
			t.Errorf("%v: %s, want level %s and %q", err, value, level, uris)
		}
	}
	change(a, func() { a.level = []byte(`"error"`) })
	stored("error")
	change(b, func() { b.pretend("a:x") })
	stored("error", "a:x")
	if string(b.level) != `"error"` {
		t.Errorf("the second replica has level %s", b.level)
	}
	change(a, func() { a.level = []byte(`"debug"`) })
	stored("debug", "a:x")
	change(b, func() { delete(b.subs.watched, "a:x"); b.pretend("a:y") })
	stored("debug", "a:y")
	change(a, func() { a.level = []byte(`"info"`) })
	stored("info", "a:y")

	c := replicas[2] // a replica that takes the session over
	c.Resumed(&session)
	c.refresh(t.Context())
	if string(c.level) != `"info"` || !slices.Equal(c.shared.wanted, []string{"a:y"}) {
		t.Errorf("it has level %s, and wants %q", c.level, c.shared.wanted)
	}

	down := store.New(refusingEngine{store.NewMemory(store.Bounds{})}, store.Options{Keys: storetest.Keys(1)})
	defer down.Close()
	c.shared.store = down // it cannot store its change, and does so later
	change(c, func() { c.level = []byte(`"alert"`) })
	if !c.shared.behind || !c.shared.stale.Load() {
		t.Error("it does not know that its change is not stored")
	}
	c.shared.store, c.shared.pause = stores[0], time.Time{}
	c.refresh(t.Context())
	value, err := stores[0].Get(t.Context(), a.shared.key)
	if err != nil || !strings.Contains(string(value), `"alert"`) || !strings.Contains(string(value), `"a:y"`) || c.shared.behind {
		t.Errorf("%s, %v, want the change that was not stored", value, err)
	}
	for _, c := range replicas {
		c.End()
	}
}

// unsureEngine does what it is asked to, and reports a failure, as an engine does whose answers come too late.
type unsureEngine struct {
	*store.Memory
	silent, mute bool // about values, about messages
}

func (e *unsureEngine) late(silent bool, done bool, err error) (bool, error) {
	if silent {
		return false, store.ErrRejected
	}
	return done, err
}

func (e *unsureEngine) Add(ctx context.Context, key string, value []byte, ttl time.Duration) (bool, error) {
	done, err := e.Memory.Add(ctx, key, value, ttl)
	return e.late(e.silent, done, err)
}

func (e *unsureEngine) Swap(ctx context.Context, key string, tags [][]byte, value []byte, ttl time.Duration) (bool, error) {
	done, err := e.Memory.Swap(ctx, key, tags, value, ttl)
	return e.late(e.silent, done, err)
}

func (e *unsureEngine) Publish(ctx context.Context, name string, message []byte) error {
	_, err := e.late(e.mute, true, e.Memory.Publish(ctx, name, message))
	return err
}

// TestALaterChangeOfAnotherReplicaWins over one that is stored although the replica that made it got no answer.
func TestALaterChangeOfAnotherReplicaWins(t *testing.T) {
	for name, fault := range map[string]func(e *unsureEngine){
		"the value":   func(e *unsureEngine) { e.silent = true },
		"the message": func(e *unsureEngine) { e.mute = true },
	} {
		for i := range 4 {
			first, emptied := i%2 == 0, i >= 2 // whether it is the first write, and whether the store loses everything behind the second
			memory, session := store.NewMemory(store.Bounds{}), aSession()
			engine := &unsureEngine{Memory: memory}
			begin := func(e store.Engine) *Conn {
				s := store.New(e, store.Options{Keys: storetest.Keys(1)})
				t.Cleanup(func() { s.Close() })
				c := replica(t, s).Resume(session, nil)
				c.Named(&session)
				t.Cleanup(c.End)
				return c
			}
			a, b := begin(engine), begin(memory)
			change := func(c *Conn, level string, do func()) {
				c.mu.Lock()
				c.level = []byte(level)
				do()
				c.mu.Unlock()
				c.save(t.Context())
			}
			if !first {
				change(a, `"info"`, func() {})
			}
			fault(engine)
			change(a, `"error"`, func() { a.pretend("a:x") })
			if !a.shared.behind {
				t.Fatal("it does not know that its change may not be stored")
			}
			b.outdated()
			b.refresh(t.Context())
			change(b, `"alert"`, func() { b.shared.wanted = []string{"a:y"} })
			if emptied {
				if err := b.shared.store.Delete(t.Context(), b.shared.key); err != nil {
					t.Fatal(err)
				}
				b.outdated()
				b.refresh(t.Context())
			}
			engine.silent, engine.mute, a.shared.pause = false, false, time.Time{}
			a.outdated()
			a.refresh(t.Context())
			value, err := b.shared.store.Get(t.Context(), b.shared.key)
			var got state
			if err == nil {
				err = json.Unmarshal(value, &got)
			}
			if err != nil || got.Level != "alert" || !slices.Equal(got.Subscriptions, []string{"a:y"}) || a.shared.behind {
				t.Errorf("%s, first %v, emptied %v: %v, %s is stored, want the later change", name, first, emptied, err, value)
			}
			if string(a.level) != `"alert"` || a.Subscriptions() != "" || !slices.Equal(a.shared.wanted, []string{"a:y"}) {
				t.Errorf("%s, first %v, emptied %v: level %s, watched %q, wanted %q, want those of the later change", name, first, emptied, a.level, a.Subscriptions(), a.shared.wanted)
			}
		}
	}
}

// TestChangeThatIsNotStoredYetStays when another replica's change is read before it is stored: the client is told that it is subscribed.
func TestChangeThatIsNotStoredYetStays(t *testing.T) {
	stores, _ := storetest.Memory(t, 2)
	session := aSession()
	var replicas []*Conn
	for _, s := range stores {
		c := replica(t, s).Resume(session, nil)
		c.Named(&session)
		t.Cleanup(c.End)
		replicas = append(replicas, c)
	}
	a, b := replicas[0], replicas[1]
	for _, uri := range []string{"a:old", "a:other"} {
		a.pretend(uri)
	}
	a.save(t.Context())
	b.outdated()
	b.refresh(t.Context())

	b.unsubscribe("a:other")
	b.save(t.Context())
	a.mu.Lock()
	a.level = []byte(`"error"`)
	a.pretend("a:new")
	a.mu.Unlock()
	a.unsubscribe("a:old")
	a.outdated()
	a.refresh(t.Context()) // before a.save
	if got := a.Subscriptions(); got != "a:new" || a.shared.wanted != nil || string(a.level) != `"error"` {
		t.Errorf("subscribed to %q, wants %q, level %s", got, a.shared.wanted, a.level)
	}
	a.save(t.Context())
	var got state
	value, err := stores[1].Get(t.Context(), a.shared.key)
	if err == nil {
		err = json.Unmarshal(value, &got)
	}
	if err != nil || got.Level != "error" || !slices.Equal(got.Subscriptions, []string{"a:new"}) {
		t.Errorf("%v: %s is stored", err, value)
	}
}
