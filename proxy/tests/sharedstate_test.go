package tests

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tidwall/gjson"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/dragoman-proxy/dragoman/proxy"
	"github.com/dragoman-proxy/dragoman/proxy/config"
	"github.com/dragoman-proxy/dragoman/proxy/protocol/mcp"
	"github.com/dragoman-proxy/dragoman/proxy/replicas/sealed"
	"github.com/dragoman-proxy/dragoman/proxy/store"
	"github.com/dragoman-proxy/dragoman/proxy/store/redisstore"
	"github.com/dragoman-proxy/dragoman/proxy/store/storetest"
	"github.com/dragoman-proxy/dragoman/proxy/tests/peertest"
	"github.com/dragoman-proxy/dragoman/proxy/transport/downstream"
)

// cluster starts replicas in front of one server that share an engine.
type cluster struct {
	t      *testing.T
	cfg    config.Config
	engine func() store.Engine
	redis  *storetest.Redis // nil if the engine is in memory
	within time.Duration    // for one use of the engine
}

// sharedMemory is a memory that several stores close.
type sharedMemory struct{ *store.Memory }

func (sharedMemory) Close() error { return nil }

// overEngines runs a test over both engines. The server is at the cluster's URL.
func overEngines(t *testing.T, server func(t *testing.T) peer, do func(t *testing.T, c *cluster)) {
	t.Run("memory", func(t *testing.T) {
		leavesNothing(t)
		memory := sharedMemory{store.NewMemory(store.Bounds{})}
		do(t, newCluster(t, server(t), func() store.Engine { return memory }, nil))
	})
	t.Run("redis", func(t *testing.T) {
		leavesNothing(t)
		r := storetest.StartRedis(t)
		do(t, newCluster(t, server(t), engineOf(r), r))
	})
}

func engineOf(r *storetest.Redis) func() store.Engine {
	return func() store.Engine {
		return redisstore.New(redisstore.Options{Network: "tcp", Addresses: []string{r.Address}})
	}
}

func newCluster(t *testing.T, server peer, engine func() store.Engine, r *storetest.Redis) *cluster {
	t.Helper()
	key := make([]byte, sealed.KeyBytes)
	rand.Read(key)
	file := filepath.Join(t.TempDir(), "key")
	if err := os.WriteFile(file, []byte(base64.StdEncoding.EncodeToString(key)), 0o600); err != nil {
		t.Fatal(err)
	}
	cfg := config.Default()
	cfg.Upstream.URL = server.At().URL
	cfg.Upstream.HandshakeTimeout, cfg.Upstream.ConnectTimeout = patience, patience
	cfg.Session.KeyFile = file
	cfg.Contract.Tasks = "bridge"
	return &cluster{t, cfg, engine, r, patience}
}

// start starts a replica, which stop ends, as the test does at last.
func (c *cluster) start() (srv testServer, uses *storetest.Counter, stop func()) {
	c.t.Helper()
	uses = new(storetest.Counter)
	s := store.New(c.engine(), store.Options{Keys: storetest.Keys(1), Observe: uses.Observe, Timeout: c.within})
	core, logs := observer.New(zap.DebugLevel)
	p, err := proxy.New(c.cfg, zap.New(core))
	if err != nil {
		c.t.Fatal(err)
	}
	p.Host.Store.Close()
	p.Host.Store = s
	p.Table.Share()
	stop = sync.OnceFunc(p.Close)
	c.t.Cleanup(stop)
	return testServer{p, c.t, logs}, uses, stop
}

func (c *cluster) several(n int) (all []testServer) {
	for range n {
		srv, _, _ := c.start()
		all = append(all, srv)
	}
	return all
}

// is404 reports whether a replica does not know a session any more.
func (srv testServer) is404(session string) bool { return srv.post(session, whoAmI).status == 404 }

// TestDeletedSessionIsDeadInAllReplicas: in those that hold it, those that do not, and one that starts later.
func TestDeletedSessionIsDeadInAllReplicas(t *testing.T) {
	overEngines(t, func(t *testing.T) peer { return newSessionless(t, nil) }, func(t *testing.T, c *cluster) {
		all := c.several(3)
		session := all[0].initialize("2025-11-25")
		for _, p := range all[:2] {
			p.about(session)
		}
		if r := all[1].exchange(context.Background(), "DELETE", session, ""); r.status >= 300 {
			t.Fatalf("%+v", r)
		}
		for n, p := range all {
			eventually(t, fmt.Sprint("dead at ", n), func() bool { return p.is404(session) })
		}
		later, _, _ := c.start()
		eventually(t, "dead at a replica that starts later", func() bool { return later.is404(session) })
		if other := all[2].initialize("2025-11-25"); later.is404(other) {
			t.Error("another session is dead")
		}
	})
}

// TestStandingStreamOfADeletedSessionEnds, also at the replica that did not get the DELETE.
func TestStandingStreamOfADeletedSessionEnds(t *testing.T) {
	overEngines(t, func(t *testing.T) peer { return newSessionless(t, nil) }, func(t *testing.T, c *cluster) {
		all := c.several(2)
		session := all[0].initialize("2025-11-25")
		stream := all[0].open("GET", session, "")
		if r := all[1].exchange(context.Background(), "DELETE", session, ""); r.status >= 300 {
			t.Fatalf("%+v", r)
		}
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			for {
				if _, err := stream.resp.Stream.Next(); err != nil {
					return
				}
			}
		}()
		select {
		case <-ended:
		case <-time.After(patience):
			t.Error("the stream goes on")
			stream.stop(downstream.ErrClientLeft)
			<-ended
		}
		stream.resp.Stream.Close()
		stream.resp.Done()
	})
}

// TestOrdinaryCallsLeaveTheStoreAlone, with servers of both eras: only what changes what replicas share does.
func TestOrdinaryCallsLeaveTheStoreAlone(t *testing.T) {
	for name, server := range map[string]func(t *testing.T) peer{
		"handshake server": func(t *testing.T) peer { return newTaskingServer(t) },
		"modern server":    func(t *testing.T) peer { return newSessionless(t, nil) },
	} {
		t.Run(name, func(t *testing.T) {
			leavesNothing(t)
			memory := sharedMemory{store.NewMemory(store.Bounds{})}
			c := newCluster(t, server(t), func() store.Engine { return memory }, nil)
			srv, uses, _ := c.start()
			eventually(t, "it has loaded", func() bool { return uses.Total() > 0 })
			time.Sleep(20 * time.Millisecond)
			uses.Uses()
			session := srv.initialize("2025-11-25")
			for range 3 {
				for _, m := range []string{
					`{"jsonrpc":"2.0","id":2,"method":"tools/list"}`, `{"jsonrpc":"2.0","id":3,"method":"ping"}`,
					`{"jsonrpc":"2.0","id":4,"method":"prompts/get","params":{"name":"p"}}`,
					`{"jsonrpc":"2.0","id":5,"method":"resources/read","params":{"uri":"u:1"}}`,
					`{"jsonrpc":"2.0","id":6,"method":"tools/call","params":{"name":"quick","arguments":{}}}`,
					`{"jsonrpc":"2.0","id":7,"method":"tasks/get","params":{"taskId":"786512e2-9e0d-44bd-8f29-789f320fe840"}}`,
				} {
					srv.post(session, m)
					srv.modernly(modernRequestOf("8", gjson.Get(m, "method").String(), strings.Trim(gjson.Get(m, "params").Raw+",", "{},")+commaIf(gjson.Get(m, "params").Exists())+meta(`{}`)))
				}
			}
			if got := uses.Uses(); len(got) != 0 {
				t.Errorf("%v", got)
			}
			want := map[string]int{"add session_state": 1, "publish channel": 1}
			if name != "modern server" {
				want = map[string]int{"get server_session_state": 1, "add server_session_state": 1}
			}
			set := `{"jsonrpc":"2.0","id":6,"method":"logging/setLevel","params":{"level":"error"}}`
			srv.post(session, set)
			if got := uses.Uses(); !maps.Equal(got, want) {
				t.Errorf("logging/setLevel: %v", got)
			}
		})
	}
}

func commaIf(is bool) string {
	if is {
		return ","
	}
	return ""
}

// TestSessionKeepsItsStateWhenItsReplicaDies: the log level and the subscriptions of a session before a modern server.
func TestSessionKeepsItsStateWhenItsReplicaDies(t *testing.T) {
	var s *sessionless
	overEngines(t, func(t *testing.T) peer { s = newSessionless(t, nil); return s }, func(t *testing.T, c *cluster) {
		first, _, stop := c.start()
		second, uses, _ := c.start()
		third, _, _ := c.start()
		session := first.initialize("2025-11-25")
		sameJSON(t, first.post(session, `{"jsonrpc":"2.0","id":6,"method":"logging/setLevel","params":{"level":"error"}}`).body, result("6", ""))
		for _, uri := range []string{"u:1", "u:2", "u:3"} {
			sameJSON(t, first.post(session, `{"jsonrpc":"2.0","id":8,"method":"resources/subscribe","params":{"uri":"`+uri+`"}}`).body, result("8", ""))
		}
		for _, uri := range []string{"u:1", "u:3"} {
			sameJSON(t, first.post(session, `{"jsonrpc":"2.0","id":9,"method":"resources/unsubscribe","params":{"uri":"`+uri+`"}}`).body, result("9", ""))
		}
		stop()
		uses.Uses()
		for range 3 {
			if _, _, level := second.about(session); level != "error" {
				t.Errorf("level %s", level)
			}
		}
		if got := uses.Uses(); got["get session_state"] != 1 || len(got) != 1 {
			t.Errorf("%v", got)
		}
		stream := third.open("GET", session, "")
		said := make(chan string, 1)
		go func() { said <- gjson.GetBytes(stream.next().Data, "params.uri").String() }()
		select {
		case s.news <- struct{}{}:
		case <-time.After(patience):
			t.Fatal("no subscription was restored")
		}
		if uri := <-said; uri != "u:2" {
			t.Errorf("news of %s", uri)
		}
		// What one replica changes, the others have at once.
		sameJSON(t, second.post(session, `{"jsonrpc":"2.0","id":6,"method":"logging/setLevel","params":{"level":"debug"}}`).body, result("6", ""))
		eventually(t, "the level is the same at the third", func() bool { _, _, level := third.about(session); return level == "debug" })
		sameJSON(t, second.post(session, `{"jsonrpc":"2.0","id":9,"method":"resources/unsubscribe","params":{"uri":"u:2"}}`).body, result("9", ""))
		eventually(t, "the third does not listen any more", func() bool {
			return !strings.Contains(third.Table.Held(session).Conn.(interface{ Subscriptions() string }).Subscriptions(), "u:2")
		})
		stream.stop(downstream.ErrClientLeft)
		stream.resp.Stream.Close()
		stream.resp.Done()
	})
}

// TestReplicasReplaceALostSessionOnce: if the server loses its sessions, all replicas go on in the same new one.
func TestReplicasReplaceALostSessionOnce(t *testing.T) {
	var s *peertest.Server
	overEngines(t, func(t *testing.T) peer { s = newSessionServer(t, "2025-06-18", ""); return s }, func(t *testing.T, c *cluster) {
		all := c.several(3)
		session := all[0].initialize("2025-11-25")
		for _, p := range all[:2] {
			p.who(session)
		}
		for round := range 3 {
			s.Forget()
			var names sync.Map
			var calls sync.WaitGroup
			for _, p := range all {
				for range 4 {
					calls.Go(func() { names.Store(p.who(session), true) })
				}
			}
			calls.Wait()
			n := 0
			names.Range(func(any, any) bool { n++; return true })
			begun := s.Known()
			if n != 1 || begun != 1 {
				t.Errorf("round %d: %d sessions are used, and %d have begun", round, n, begun)
			}
		}
		later, _, _ := c.start()
		if later.who(session) != all[0].who(session) {
			t.Error("a replica that starts later has another session")
		}
		another, _, _ := c.start() // it has only the id of the first session
		if r := another.exchange(context.Background(), "DELETE", session, ""); r.status >= 300 {
			t.Errorf("%+v", r)
		}
		eventually(t, "the server ends the session", func() bool { return s.Known() == 0 })
	})
}

// TestTaskOfAModernClientIsReadAtAnyReplica: while it runs and when it is over, also when its replica is gone, and the
// result even when the server is gone.
func TestTaskOfAModernClientIsReadAtAnyReplica(t *testing.T) {
	var s *taskingServer
	overEngines(t, func(t *testing.T) peer { s = newTaskingServer(t); return s }, func(t *testing.T, c *cluster) {
		first, _, stop := c.start()
		second, uses, stopSecond := c.start()
		third, _, _ := c.start()
		if r := first.modernly(callAsTask("4", "slow")); gjson.Get(r.body, "result.taskId").String() != "t1" {
			t.Fatalf("%+v", r)
		}
		get := ofTaskModern("5", "tasks/get", "t1", "")
		sameJSON(t, second.onTask(get).body, result("5", `"status":"working",`+stateOfT1))
		sameJSON(t, second.onTask(get, "Authorization", "Bearer b").body, rpcError("5", `"code":-32602,"message":"Task not found"`))
		stop()
		uses.Uses()
		sameJSON(t, second.onTask(get).body, result("5", `"status":"working",`+stateOfT1))
		if got := uses.Uses(); len(got) != 0 {
			t.Errorf("for a task that it has: %v", got)
		}
		s.finish()
		const done = `"status":"completed","result":{"content":[{"type":"text","text":"done"}],` + relatedToT1 + `},` + stateOfT1
		sameJSON(t, second.onTask(get).body, result("5", done))
		eventually(t, "the result is stored", func() bool { return uses.Total() >= 2 })
		s.Close()
		sameJSON(t, second.onTask(get).body, result("5", done))
		stopSecond()
		sameJSON(t, third.onTask(get).body, result("5", done))
		if n := third.Modern.Counts().Uses; n != 0 {
			t.Errorf("%d sessions are in use", n)
		}
		fourth, _, _ := c.start()
		sameJSON(t, fourth.onTask(get, "Authorization", "Bearer b").body, rpcError("5", `"code":-32602,"message":"Task not found"`))
	})
}

// finishesAtOnce makes a modern server have tasks, and make none.
func finishesAtOnce(u *peertest.Turn) bool {
	switch u.Method {
	case "server/discover":
		u.Answer(200, result(u.ID, `"resultType":"complete","supportedVersions":["2026-07-28"],`+withTasks))
	case "tools/list":
		u.Answer(200, result(u.ID, `"resultType":"complete","ttlMs":0,"cacheScope":"private","tools":[{"name":"t","inputSchema":{"type":"object"}}]`))
	case "tools/call":
		u.Answer(200, result(u.ID, `"resultType":"complete","content":[{"type":"text","text":"at once"}]`))
	default:
		u.Answer(200, rpcError(u.ID, `"code":-32602,"message":"Task not found"`))
	}
	return true
}

// TestFinishedTaskIsReadAtAnyReplica: of a session with a modern server that has made no task.
func TestFinishedTaskIsReadAtAnyReplica(t *testing.T) {
	overEngines(t, func(t *testing.T) peer { return newSessionless(t, finishesAtOnce) }, func(t *testing.T, c *cluster) {
		first, _, stop := c.start()
		second, uses, _ := c.start()
		session := first.initialize("2025-11-25")
		task := gjson.Get(first.post(session, taskCalled("3")).body, "result.task")
		id := task.Get("taskId").String()
		if task.Get("status").String() != "completed" || len(id) != 36 {
			t.Fatal(task.Raw)
		}
		of := `"_meta":{"io.modelcontextprotocol/related-task":{"taskId":"` + id + `"}}`
		for n, p := range []testServer{first, second} {
			sameJSON(t, p.post(session, aboutTask("4", "tasks/get", id)).body, `{"jsonrpc":"2.0","id":4,"result":`+task.Raw+`}`)
			sameJSON(t, p.post(session, aboutTask("5", "tasks/result", id)).body, result("5", `"content":[{"type":"text","text":"at once"}],`+of))
			if n == 0 {
				stop()
			}
		}
		other := second.initialize("2025-11-25")
		uses.Uses()
		sameJSON(t, second.post(other, aboutTask("6", "tasks/get", id)).body, rpcError("6", `"code":-32602,"message":"Task not found"`))
		if got := uses.Uses(); len(got) != 0 {
			t.Errorf("for the task of another session: %v", got)
		}
	})
}

// TestEngineFaults: ordinary calls do not notice, what was changed meanwhile is shared once the engine is back, and no
// replica has to be restarted.
func TestEngineFaults(t *testing.T) {
	for name, fault := range map[string]struct{ begin, end func(r *storetest.Redis) }{
		"stopped": {(*storetest.Redis).Stop, (*storetest.Redis).Start},
		"paused":  {(*storetest.Redis).Pause, (*storetest.Redis).Continue},
		"full": {
			func(r *storetest.Redis) { r.Ask("config set maxmemory 1") },
			func(r *storetest.Redis) { r.Ask("config set maxmemory 0") },
		},
		"restarted empty": {
			func(r *storetest.Redis) { r.Stop(); r.Start() },
			func(*storetest.Redis) {},
		},
		"slow": {
			func(r *storetest.Redis) { go r.TryAsk("debug sleep 1") },
			func(*storetest.Redis) {},
		},
	} {
		runTogether(t, name, func(t *testing.T) {
			r := storetest.StartRedis(t, "enable-debug-command yes")
			s := newSessionless(t, nil)
			c := newCluster(t, s, engineOf(r), r)
			c.within = time.Second // while it is away
			all := c.several(2)
			before := all[0].initialize("2025-11-25")
			sameJSON(t, all[0].post(before, `{"jsonrpc":"2.0","id":6,"method":"logging/setLevel","params":{"level":"error"}}`).body, result("6", ""))
			eventually(t, "the level is shared before the fault", func() bool { // a busy engine may need longer than one use of it has
				all[0].about(before)
				_, _, level := all[1].about(before)
				return level == "error"
			})
			gone := all[0].initialize("2025-11-25")
			all[1].about(gone)
			fault.begin(r)
			during := all[0].initialize("2025-11-25")
			for range 5 {
				for _, p := range all {
					if client, _, _ := p.about(during); client == "" {
						t.Error("a call fails")
					}
					if _, _, level := p.about(before); level != "error" {
						t.Errorf("level %s", level)
					}
				}
			}
			sameJSON(t, all[1].post(before, `{"jsonrpc":"2.0","id":6,"method":"logging/setLevel","params":{"level":"warning"}}`).body, result("6", ""))
			if r := all[0].exchange(context.Background(), "DELETE", gone, ""); r.status >= 300 {
				t.Errorf("%+v", r)
			}
			if !all[0].is404(gone) {
				t.Error("it lives where it was deleted")
			}
			fault.end(r)
			eventually(t, "it is dead everywhere", func() bool { return all[1].is404(gone) })
			eventually(t, "the level is shared", func() bool {
				_, _, at := all[1].about(before)
				_, _, level := all[0].about(before)
				return level == "warning" && at == level
			})
			eventually(t, "the engine has the mark", func() bool {
				later, _, stop := c.start()
				defer stop()
				defer time.Sleep(10 * time.Millisecond)
				later.post(before, whoAmI)
				return later.is404(gone)
			})
			if later, _, _ := c.start(); later.is404(before) {
				t.Error("another session is dead")
			}
		})
	}
}

// TestTasksWhenTheEngineIsDown: the client is told that the task may be there.
func TestTasksWhenTheEngineIsDown(t *testing.T) {
	leavesNothing(t)
	r := storetest.StartRedis(t)
	c := newCluster(t, newTaskingServer(t), engineOf(r), r)
	c.within = time.Second // while it is away
	first, _, _ := c.start()
	second, _, _ := c.start()
	if r := first.modernly(callAsTask("4", "slow")); gjson.Get(r.body, "result.taskId").String() != "t1" {
		t.Fatalf("%+v", r)
	}
	r.Stop()
	get := ofTaskModern("5", "tasks/get", "t1", "")
	sameJSON(t, first.onTask(get).body, result("5", `"status":"working",`+stateOfT1))
	if r := second.onTask(get); gjson.Get(r.body, "error.code").Int() != mcp.CodeInternal || !strings.Contains(r.body, "cannot be reached now") {
		t.Errorf("%+v", r)
	}
	if r := first.modernly(callAsTask("6", "slow"), "Authorization", "Bearer b"); gjson.Get(r.body, "result.taskId").String() != "t1" {
		t.Errorf("%+v", r)
	}
	r.Start()
	eventually(t, "there is an answer again", func() bool {
		r := second.onTask(get)
		return gjson.Get(r.body, "error.code").Int() == mcp.CodeInvalidParams || gjson.Get(r.body, "result").Exists()
	})
}
