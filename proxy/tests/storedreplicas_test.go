package tests

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tidwall/gjson"
	"go.uber.org/zap"

	"github.com/dragoman-proxy/dragoman/proxy"
	"github.com/dragoman-proxy/dragoman/proxy/config"
	"github.com/dragoman-proxy/dragoman/proxy/origin"
	"github.com/dragoman-proxy/dragoman/proxy/store"
	"github.com/dragoman-proxy/dragoman/proxy/store/storetest"
	"github.com/dragoman-proxy/dragoman/proxy/transport/downstream"
)

// inStore makes replicas share a server with the Redis protocol.
func inStore(r *storetest.Redis) func(*config.Config) {
	return func(c *config.Config) {
		c.Store.URL = "unix://" + r.Socket
		c.Store.Timeout = 5 * time.Second
	}
}

// atHome waits until all replicas are in the store, and makes each of them look there again.
func atHome(t *testing.T, all []peerServer) {
	t.Helper()
	eventually(t, "all replicas are in the store", func() bool {
		n := 0
		if err := all[0].Host.Store.Members(t.Context(), store.Key{Kind: "replicas"}, func(store.Member) bool { n++; return true }); err != nil {
			t.Fatal(err)
		}
		return n == len(all)
	})
	for _, p := range all {
		p.Replicas.Forget()
	}
}

func TestReplicasFindEachOtherInTheStore(t *testing.T) {
	all, _, r := askedAt(t, 3, inStore(storetest.StartRedis(t)))
	atHome(t, all)
	again := all[1].modernly(retryOf("8", ada, r))
	if again.status != 200 || !strings.Contains(gjson.Get(again.body, "result.content.0.text").String(), "Ada") {
		t.Fatalf("%+v", again)
	}
	if n := all[1].forwarded("served"); n != 1 {
		t.Errorf("%d forwarded", n)
	}
	eventually(t, "the replica that was not needed is known, too", func() bool { return len(all[1].Replicas.List()) == 2 })
	if list := all[1].Replicas.List(); list[0].Forwarded+list[1].Forwarded != 1 {
		t.Errorf("%+v", list)
	}
	sameJSON(t, all[2].modernly(retryOf("8", ada, r)).body, expiredState) // the call has ended
}

// TestReplicaInTheStoreThatIsGone: its calls get the documented error, and all else goes on.
func TestReplicaInTheStoreThatIsGone(t *testing.T) {
	all, _, r := askedAt(t, 3, inStore(storetest.StartRedis(t)))
	atHome(t, all)
	other := all[1].modernly(modernCall("9", ""))
	all[0].end()
	all[2].Replicas.Forget() // the list is a moment old
	sameJSON(t, all[1].modernly(retryOf("8", ada, r)).body, expiredState)
	if again := all[2].modernly(retryOf("10", ada, other)); again.status != 200 || !strings.Contains(again.body, "Ada") {
		t.Errorf("%+v", again)
	}
	for _, p := range all[2].Replicas.List() {
		if p.Address == all[0].at {
			t.Error("the replica that has ended is still in the store")
		}
	}
}

// TestStoreThatIsGoneKeepsWhatIsKnown: a replica that was found is still found, and all others get the documented error.
func TestStoreThatIsGoneKeepsWhatIsKnown(t *testing.T) {
	redis := storetest.StartRedis(t)
	all, _, r := askedAt(t, 2, inStore(redis))
	atHome(t, all)
	second := all[0].modernly(modernCall("9", ""))
	if again := all[1].modernly(retryOf("8", ada, r)); again.status != 200 {
		t.Fatalf("%+v", again)
	}
	redis.Stop()
	all[1].Replicas.Forget()
	if again := all[1].modernly(retryOf("10", ada, second)); again.status != 200 || !strings.Contains(again.body, "Ada") {
		t.Errorf("%+v", again)
	}
	if err := all[1].Ready(); err != nil {
		t.Errorf("not ready: %v", err)
	}
	redis.Start()
	third := all[0].modernly(modernCall("11", ""))
	awaitStore(t, all[1])
	if again := all[1].modernly(retryOf("12", ada, third)); again.status != 200 || !strings.Contains(again.body, "Ada") {
		t.Errorf("%+v", again)
	}
}

// awaitStore waits until p's store is up again.
func awaitStore(t *testing.T, p peerServer) {
	t.Helper()
	eventually(t, "the store is back", func() bool { return p.Host.Store.Ping(t.Context()) == nil && p.Host.Store.Up() })
}

// TestOrdinaryCallsDoNotUseTheStore, of clients of both eras: that a replica registers itself is counted, and that it reads, when it
// starts and when it has begun to listen, which sessions were ended.
func TestOrdinaryCallsDoNotUseTheStore(t *testing.T) {
	s := newSessionServer(t, "2025-11-25", "")
	all := peersOf(t, 2, s, inStore(storetest.StartRedis(t)))
	atHome(t, all)
	id := all[0].initialize("2025-11-25")
	for i := range 20 {
		p := all[i%2]
		if r := p.modernly(modernCall(fmt.Sprint(i), "")); r.status != 200 || !strings.Contains(r.body, "done") {
			t.Fatalf("%+v", r)
		}
		if r := p.post(id, `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"x"}}`); r.status != 200 || !strings.Contains(r.body, "done") {
			t.Fatalf("%+v", r)
		}
	}
	for i, p := range all {
		var total, before, registers, ended int
		for ok := false; !ok; ok = before == registers { // a renewal may come between
			before = counted(t, p.Metrics, "dragoman_store_operations_total", "kind=replicas")
			ended = counted(t, p.Metrics, "dragoman_store_operations_total", "kind=ended_pages")
			total = counted(t, p.Metrics, "dragoman_store_operations_total")
			registers = counted(t, p.Metrics, "dragoman_store_operations_total", "kind=replicas")
		}
		if registers == 0 || ended > 3 || total != registers+ended {
			t.Errorf("replica %d has used the store %d times, %d of them to register itself and %d to read which sessions were ended", i, total, registers, ended)
		}
	}
}

// TestOrphanedSessionHasOneHeir: when the replica of a session with a modern server dies, the question of a call at one replica
// is answered through another one, as one of them goes on with the session for all; also when that one dies, too.
func TestOrphanedSessionHasOneHeir(t *testing.T) {
	all := peersOf(t, 4, newSessionless(t, nil), inStore(storetest.StartRedis(t)))
	atHome(t, all)
	session := all[0].initializeWith("2025-11-25", manyCapabilities)
	ask := func(calls, answers peerServer) {
		t.Helper()
		req, resp := calls.begin(context.Background(), "POST", session, `{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"ask"}}`)
		if resp.Stream == nil {
			t.Fatalf("%d %s", resp.Status, resp.Body)
		}
		e, err := resp.Stream.Next()
		if err != nil || gjson.GetBytes(e.Data, "method").String() != "elicitation/create" {
			t.Fatalf("%s, %v", e.Data, err)
		}
		if r := answers.post(session, result(gjson.GetBytes(e.Data, "id").Raw, `"action":"accept","content":{"n":"Ada"}`)); r.status != 202 {
			t.Errorf("%+v", r)
		}
		rest := calls.read(req, resp)
		if len(rest.events) != 1 || gjson.Get(rest.events[0], "result.content.0.text").String() != "Ada" {
			t.Errorf("%+v", rest)
		}
	}
	ask(all[2], all[3])
	all[0].end()
	ask(all[1], all[3]) // all[1] is the heir
	ask(all[3], all[2])
	all[1].end()
	ask(all[2], all[3])
	ask(all[3], all[2])
}

// closedStore is a store whose sets take no member while closed is set.
type closedStore struct {
	store.Engine
	closed *atomic.Bool
}

func (s closedStore) Join(ctx context.Context, set string, member []byte, ttl time.Duration, most int) error {
	if s.closed.Load() {
		return nil
	}
	return s.Engine.Join(ctx, set, member, ttl, most)
}

// TestWhatTheHeirAskedIsAnsweredAtTheFirstReplica, which could not be reached for a moment: another one went on with its session, and has
// asked the client, and called the server.
func TestWhatTheHeirAskedIsAnsweredAtTheFirstReplica(t *testing.T) {
	url := newSessionless(t, nil).At().URL
	leavesNothing(t)
	var closed atomic.Bool
	all := acquainted(t, 2, func(w origin.World, cfg config.Config, log *zap.Logger) (*proxy.Server, error) {
		cfg.Upstream.URL, w.Store = url, closedStore{w.Store, &closed}
		return proxy.NewIn(w, cfg, log)
	})
	session := all[0].initializeWith("2025-11-25", manyCapabilities)
	places := store.Key{Kind: "replicas"}
	var first []byte
	closed.Store(true) // it does not join again
	if err := all[0].Host.Store.Members(t.Context(), places, func(m store.Member) bool {
		if bytes.HasSuffix(m.Name, []byte(all[0].at)) {
			first = bytes.Clone(m.Name)
		}
		return true
	}); err != nil || first == nil {
		t.Fatal(err)
	}
	if err := all[0].Host.Store.Leave(t.Context(), places, first); err != nil {
		t.Fatal(err)
	}
	all[1].Replicas.Forget()
	call := func(id string) (*downstream.Request, *response, string) {
		t.Helper()
		req, resp := all[1].begin(t.Context(), "POST", session, `{"jsonrpc":"2.0","id":`+id+`,"method":"tools/call","params":{"name":"ask"}}`)
		if resp.Stream == nil {
			t.Fatalf("%d %s", resp.Status, resp.Body)
		}
		e, err := resp.Stream.Next()
		if err != nil {
			t.Fatal(err)
		}
		return req, resp, gjson.GetBytes(e.Data, "id").Raw
	}
	req, resp, question := call("7")
	other, left, _ := call("8")
	closed.Store(false)
	if n := all[1].Table.Len(); n != 1 {
		t.Fatalf("%d sessions at the heir", n)
	}
	if r := all[0].post(session, result(question, `"action":"accept","content":{"n":"Ada"}`)); r.status != 202 {
		t.Errorf("%+v", r)
	}
	if rest := all[1].read(req, resp); len(rest.events) != 1 || gjson.Get(rest.events[0], "result.content.0.text").String() != "Ada" {
		t.Errorf("%+v", rest)
	}
	if r := all[0].post(session, `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":8}}`); r.status != 202 {
		t.Errorf("%+v", r)
	}
	for _, e := range all[1].read(other, left).events {
		if gjson.Get(e, "id").Raw == "8" {
			t.Errorf("the cancelled call is answered: %s", e)
		}
	}
}
