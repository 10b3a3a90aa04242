package adapterrt

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// clock is a clock that tests move.
type clock struct {
	mu sync.Mutex
	at time.Time
}

func (c *clock) now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.at
}

func (c *clock) pass(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.at = c.at.Add(d)
}

const cachedOps = `
read:
- {name: timed, maps_to: GET /timed, description: T, params: {q: {type: string}}, cache: {ttl: 30s}}
- {name: told, maps_to: GET /told, description: T, cache: headers}
- {name: shared, maps_to: GET /shared, description: S, cache: {ttl: 30s, coalesce: true}}
create:
- {name: change, maps_to: POST /change, description: C}`

func TestCache(t *testing.T) {
	n := 0
	var head map[string]string
	status := 200
	s := api(t, func(w http.ResponseWriter, r *http.Request) {
		n++
		for k, v := range head {
			w.Header().Set(k, v)
		}
		if r.Header.Get("If-None-Match") == `"v1"` {
			w.WriteHeader(304)
			return
		}
		w.WriteHeader(status)
		fmt.Fprint(w, n)
	})
	ck := &clock{at: someTime()}
	token := "one-token"
	opt := Options{Now: ck.now, Getenv: func(string) (string, bool) { return token, true }}
	rt := one(t, opt, s.URL, cachedOps, "auth: {type: bearer, token_env: T}")
	expect := func(body, want string) {
		t.Helper()
		if got := ask(rt, Endpoint{}, body); got != `{"success":true,"data":`+want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
	const timed, told, change = `{"operation":"timed"}`, `{"operation":"told"}`, `{"operation":"change"}`
	expect(timed, `1,"_meta":{"cache":"miss"}}`)
	expect(timed, `1,"_meta":{"cache":"hit"}}`)
	expect(`{"operation":"timed","params":{"q":"x"}}`, `2,"_meta":{"cache":"miss"}}`)
	token = "two-tokens"
	expect(timed, `3,"_meta":{"cache":"miss"}}`) // the answer for another token is not used
	token = "one-token"
	ck.pass(29 * time.Second)
	expect(timed, `1,"_meta":{"cache":"hit"}}`)
	ck.pass(2 * time.Second)
	expect(timed, `4,"_meta":{"cache":"miss"}}`)
	expect(change, `5}`)
	expect(timed, `6,"_meta":{"cache":"miss"}}`)

	head = map[string]string{"Cache-Control": "private, max-age=10", "ETag": `"v1"`}
	expect(told, `7,"_meta":{"cache":"miss"}}`)
	ck.pass(9 * time.Second)
	expect(told, `7,"_meta":{"cache":"hit"}}`)
	ck.pass(2 * time.Second)
	expect(told, `7,"_meta":{"cache":"revalidated"}}`)
	if n != 8 {
		t.Error(n)
	}
	expect(told, `7,"_meta":{"cache":"hit"}}`)
	for _, h := range []map[string]string{{"Cache-Control": "no-store, max-age=10"}, {"Cache-Control": "max-age=10", "Vary": "Accept, X-Request-Id"}, {"Vary": "*", "ETag": `"v2"`}, {}} {
		ask(rt, Endpoint{}, change)
		head = h
		before := n
		ask(rt, Endpoint{}, told)
		ask(rt, Endpoint{}, told)
		if n != before+2 {
			t.Error("kept", h)
		}
	}
	// Headers in Vary that no request carries are the same in all requests. GitHub sends such a Vary.
	ask(rt, Endpoint{}, change)
	head = map[string]string{"Cache-Control": "max-age=10", "Vary": "Accept, Authorization, Cookie, X-Requested-With"}
	ask(rt, Endpoint{}, told)
	if got := ask(rt, Endpoint{}, told); !strings.Contains(got, `"cache":"hit"`) {
		t.Error("not kept", got)
	}
	ask(rt, Endpoint{}, change)
	head, status = nil, 500
	ask(rt, Endpoint{}, timed)
	status = 200
	if got := ask(rt, Endpoint{}, timed); !strings.Contains(got, "miss") {
		t.Error("a failure was kept", got)
	}
}

func TestIdenticalCallsShareOne(t *testing.T) {
	var n atomic.Int32
	arrived, release := make(chan struct{}, 10), make(chan struct{})
	s := api(t, func(w http.ResponseWriter, r *http.Request) {
		n.Add(1)
		arrived <- struct{}{}
		select {
		case <-release:
		case <-r.Context().Done():
			return
		}
		fmt.Fprint(w, `{"a":1}`)
	})
	rt := one(t, Options{}, s.URL, cachedOps)
	req := &Request{Body: []byte(`{"operation":"shared"}`)}
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() {
		if r := rt.Dispatch(ctx, Endpoint{}, req); !r.Cancelled {
			t.Error("the cancelled one has a result")
		}
	})
	<-arrived
	var data [8][]byte
	for i := range data {
		wg.Go(func() {
			r := rt.Dispatch(context.Background(), Endpoint{}, req)
			if data[i] = r.Data; string(r.Data) != `{"a":1}` {
				t.Error(r.Failure)
			}
		})
	}
	cancel() // the other calls must still get an answer
	<-arrived
	close(release)
	wg.Wait()
	if got := n.Load(); got != 2 { // the request that was cancelled, and one more
		t.Errorf("%d requests for one answer", got)
	}
	data[0][0] = 'x'
	for _, d := range data[1:] {
		if d[0] != '{' {
			t.Error("two results share their bytes")
		}
	}
}

func TestCacheMistakes(t *testing.T) {
	for _, ops := range []string{
		"create: [{name: op, maps_to: POST /x, description: D, cache: {ttl: 30s}}]",
		"read: [{name: op, maps_to: POST /x, description: D, cache: headers}]",
		"read: [{name: op, maps_to: GET /x, description: D, cache: {ttl: soon}}]",
		"read: [{name: op, maps_to: GET /x, description: D, cache: {}}]",
		"read: [{name: op, maps_to: GET /x, description: D, cache: forever}]",
		"read: [{name: op, maps_to: GET /x, description: D, non_idempotent: true, cache: headers}]",
	} {
		if a, _ := Parse("test-api-adapter.md", []byte(front("https://api.example.com", ops)), &Options{}); a != nil {
			t.Error(ops, "passed")
		}
	}
}
