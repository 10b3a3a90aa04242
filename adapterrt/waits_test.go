package adapterrt

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dragoman-proxy/dragoman/adapterrt/failure"
	"github.com/dragoman-proxy/dragoman/adapterrt/file"
	"github.com/dragoman-proxy/dragoman/adapterrt/guard"
	"github.com/dragoman-proxy/dragoman/adapterrt/httpcall"
	"github.com/dragoman-proxy/dragoman/proxy/tests/peertest"
)

const twoOps = status + "\n- {name: list, maps_to: GET /list, description: List}\ncreate:\n- {name: post, maps_to: POST /things, description: P}"

// bench is a runtime whose API is a function, in a bubble of synctest.
type bench struct {
	rt    *Runtime
	start time.Time
	mu    sync.Mutex
	sent  []string // METHOD URL at time
}

func newBench(t *testing.T, answer func(n int, o *httpcall.Outgoing) (*httpcall.Reply, *failure.Failure), extra ...string) *bench {
	t.Helper()
	b := &bench{rt: one(t, Options{}, "https://api.example.com", twoOps, extra...), start: time.Now()}
	b.rt.send = func(_ context.Context, _ *adapter, o *httpcall.Outgoing) (*httpcall.Reply, *failure.Failure) {
		b.mu.Lock()
		b.sent = append(b.sent, fmt.Sprint(o.Method, " ", strings.TrimPrefix(string(o.URL.Text), "https://api.example.com"), " ", time.Since(b.start)))
		n := len(b.sent)
		b.mu.Unlock()
		return answer(n, o)
	}
	return b
}

func allGood(int, *httpcall.Outgoing) (*httpcall.Reply, *failure.Failure) { return reply(200), nil }

// reply returns an answer with this status and these headers, names and values in turn.
func reply(status int, headers ...string) *httpcall.Reply {
	h := http.Header{}
	for i := 0; i < len(headers); i += 2 {
		h.Set(headers[i], headers[i+1])
	}
	return &httpcall.Reply{Status: status, Header: h, Body: []byte("1")}
}

// call calls an operation and returns the result, or the code and the seconds to wait, and when it came.
func (b *bench) call(ctx context.Context, req Request, op string) string {
	req.Body = []byte(`{"operation":"` + op + `"}`)
	r := b.rt.Dispatch(ctx, Endpoint{}, &req)
	said := "ok"
	if f := r.Failure; f != nil {
		said = string(f.Code)
		if f.RetryAfter > 0 {
			said += " " + f.RetryAfter.String()
		}
	}
	return said + " at " + time.Since(b.start).String()
}

// calls makes calls in this order, each a millisecond after the one before, and returns the results.
func (b *bench) calls(ops ...string) []string {
	out := make([]string, len(ops))
	var wg sync.WaitGroup
	for i, op := range ops {
		wg.Go(func() { out[i] = b.call(context.Background(), Request{}, op) })
		synctest.Wait()
	}
	wg.Wait()
	return out
}

func same(t *testing.T, got []string, want ...string) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("\ngot  %q\nwant %q", got, want)
	}
}

func TestCallsWaitForTheirTurn(t *testing.T) {
	const each = "requests_per_minute: 60, burst_limit: 1"
	for name, c := range map[string]struct {
		extra string
		ops   []string
		want  []string
	}{
		"in order": {"rate_limits: {" + each + "}", []string{"get_status", "post", "list", "post"},
			[]string{"ok at 0s", "ok at 1s", "ok at 2s", "RATE_LIMIT_EXCEEDED 3s at 0s"}},
		"not at all": {"rate_limits: {" + each + ", max_wait_ms: 0}", []string{"get_status", "post"},
			[]string{"ok at 0s", "RATE_LIMIT_EXCEEDED 1s at 0s"}},
		"longer": {"rate_limits: {" + each + ", max_wait_ms: 3000}", []string{"get_status", "post", "post", "post"},
			[]string{"ok at 0s", "ok at 1s", "ok at 2s", "ok at 3s"}},
		"an hour never": {"rate_limits: {api_limits: [{limit: 3600, window: hour}, {scope: category, category: READ, limit: 1, window: hour}]}", []string{"get_status", "list", "post"},
			[]string{"ok at 0s", "RATE_LIMIT_EXCEEDED 1h0m0s at 0s", "ok at 0s"}},
		"only those of the same limit": {"rate_limits: {api_limits: [{scope: endpoint, endpoint: GET /list, limit: 1, window: second}, {limit: 100, window: second}]}",
			[]string{"list", "list", "list", "post", "get_status"}, []string{"ok at 0s", "ok at 1s", "ok at 2s", "ok at 0s", "ok at 0s"}},
		"who waits elsewhere keeps no place": {"rate_limits: {concurrent_requests: 2, api_limits: [{scope: endpoint, endpoint: GET /list, limit: 1, window: second}, {limit: 2, window: second}]}",
			[]string{"list", "list", "list", "post"}, []string{"ok at 0s", "ok at 1s", "ok at 2s", "ok at 0s"}},
		"a quota does not wait": {"rate_limits: {" + each + ", quotas: {limits: [{metric: requests_per_day, hard_stop: 2}]}}", []string{"get_status", "post", "list"},
			[]string{"ok at 0s", "ok at 1s", "RATE_LIMIT_QUOTA_EXHAUSTED 23h59m59s at 1s"}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { same(t, newBench(t, allGood, c.extra).calls(c.ops...), c.want...) })
		})
	}
}

// TestAWaitEndsBeforeTheTimeout shows that a call that cannot be made within its own timeout is
// refused at once, and that what it waits is not added to its timeout.
func TestAWaitEndsBeforeTheTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var left []time.Duration
		b := newBench(t, func(_ int, o *httpcall.Outgoing) (*httpcall.Reply, *failure.Failure) {
			left = append(left, o.Timeout)
			return reply(200), nil
		}, "rate_limits: {requests_per_minute: 60, burst_limit: 1}")
		for _, op := range b.rt.live.Load().adapters[0].Operations {
			op.Timeout = 1500 * time.Millisecond
		}
		same(t, b.calls("get_status", "post", "list"), "ok at 0s", "ok at 1s", "RATE_LIMIT_EXCEEDED 2s at 0s")
		if want := []time.Duration{1500 * time.Millisecond, 500 * time.Millisecond}; !slices.Equal(left, want) {
			t.Error(left)
		}
	})
}

func TestAClientThatLeavesFreesItsPlace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, allGood, "rate_limits: {requests_per_minute: 60, burst_limit: 1}")
		var wg sync.WaitGroup
		var second, third string
		ctx, leave := context.WithCancel(context.Background())
		b.calls("get_status")
		wg.Go(func() { second = b.call(ctx, Request{}, "post") })
		synctest.Wait()
		wg.Go(func() { third = b.call(context.Background(), Request{}, "list") })
		time.Sleep(100 * time.Millisecond)
		leave()
		wg.Wait()
		same(t, []string{second, third}, "TRANSPORT_TIMEOUT at 100ms", "ok at 1s")
		same(t, b.sent, "GET /status 0s", "GET /list 1s")
	})
}

// TestClientsThatLeaveFreeTheQueue: as many calls can wait as before, and no more.
func TestClientsThatLeaveFreeTheQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const room = 64 // see guard
		b := newBench(t, func(int, *httpcall.Outgoing) (*httpcall.Reply, *failure.Failure) {
			time.Sleep(10 * time.Second)
			return reply(200), nil
		}, "rate_limits: {concurrent_requests: 1, max_wait_ms: 60000}")
		var wg sync.WaitGroup
		wg.Go(func() { b.call(context.Background(), Request{}, "get_status") })
		synctest.Wait()
		for _, c := range []struct{ calls, refused int }{{room, 0}, {room + 1, 1}, {room, 0}} {
			var refused atomic.Int32
			var round sync.WaitGroup
			for i := range c.calls {
				round.Go(func() {
					ctx, leave := context.WithTimeout(context.Background(), time.Duration(i+1)*time.Millisecond)
					defer leave()
					switch said := b.call(ctx, Request{}, "post"); {
					case strings.HasPrefix(said, "RATE_LIMIT_EXCEEDED"):
						refused.Add(1)
					case !strings.HasPrefix(said, "TRANSPORT_TIMEOUT"):
						t.Error(said)
					}
				})
				synctest.Wait()
			}
			round.Wait()
			if int(refused.Load()) != c.refused {
				t.Errorf("%d of %d calls cannot wait, want %d", refused.Load(), c.calls, c.refused)
			}
		}
		wg.Wait()
	})
}

func TestTheQueueIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		b := newBench(t, func(int, *httpcall.Outgoing) (*httpcall.Reply, *failure.Failure) {
			<-release
			return reply(200), nil
		}, "rate_limits: {concurrent_requests: 1}")
		var wg sync.WaitGroup
		var good atomic.Int32
		for range 1 + 64 {
			wg.Go(func() {
				if strings.HasPrefix(b.call(context.Background(), Request{}, "get_status"), "ok") {
					good.Add(1)
				}
			})
			synctest.Wait()
		}
		same(t, []string{b.call(context.Background(), Request{}, "list")}, "RATE_LIMIT_EXCEEDED 1s at 0s")
		close(release)
		wg.Wait()
		if good.Load() != 65 {
			t.Error(good.Load(), "calls succeeded, want 65")
		}
	})
}

func TestConcurrentCallsWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, func(int, *httpcall.Outgoing) (*httpcall.Reply, *failure.Failure) {
			time.Sleep(1500 * time.Millisecond)
			return reply(200), nil
		}, "rate_limits: {concurrent_requests: 1}")
		same(t, b.calls("get_status", "list", "post"), "ok at 1.5s", "ok at 3s", "RATE_LIMIT_EXCEEDED 1s at 2s")
	})
}

// TestAWaitIsReported shows that a client that asked for progress hears of a wait after a second.
func TestAWaitIsReported(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, allGood, "rate_limits: {api_limits: [{limit: 40, window: minute}], burst_limit: 1}")
		var notes []string
		req := Request{Progress: func(n int, text string) { notes = append(notes, fmt.Sprint(n, " ", text, " ", time.Since(b.start))) }}
		for range 40 {
			b.call(context.Background(), Request{}, "list")
		}
		same(t, []string{b.call(context.Background(), req, "get_status"), b.call(context.Background(), req, "get_status")}, "ok at 1.5s", "ok at 3s")
		same(t, notes, "0 Waiting for the rate limit of test-api 1s", "0 Waiting for the rate limit of test-api 2.5s")
	})
}

func TestAnOperationsLimitTakesNothingFromTheOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &bench{start: time.Now()}
		b.rt = one(t, Options{}, "https://api.example.com", "read:\n- {name: own, maps_to: GET /own, description: O, rate_limits: {requests_per_day: 1}}\n- {name: other, maps_to: GET /other, description: O}",
			"rate_limits: {requests_per_hour: 2}")
		b.rt.send = func(context.Context, *adapter, *httpcall.Outgoing) (*httpcall.Reply, *failure.Failure) {
			return reply(200), nil
		}
		same(t, b.calls("own", "own", "own", "other", "other"), "ok at 0s", "RATE_LIMIT_EXCEEDED 24h0m0s at 0s", "RATE_LIMIT_EXCEEDED 24h0m0s at 0s",
			"ok at 0s", "RATE_LIMIT_EXCEEDED 30m0s at 0s")
	})
	synctest.Test(t, func(t *testing.T) { // and the other way round
		b := &bench{start: time.Now()}
		b.rt = one(t, Options{}, "https://api.example.com", "read:\n- {name: own, maps_to: GET /own, description: O, rate_limits: {quotas: {limits: [{metric: requests_per_day, hard_stop: 1}]}}}\n- {name: other, maps_to: GET /other, description: O}",
			"rate_limits: {requests_per_hour: 1}")
		b.rt.send = func(context.Context, *adapter, *httpcall.Outgoing) (*httpcall.Reply, *failure.Failure) {
			return reply(200), nil
		}
		same(t, b.calls("other", "own"), "ok at 0s", "RATE_LIMIT_EXCEEDED 1h0m0s at 0s")
		time.Sleep(time.Hour)
		same(t, b.calls("own"), "ok at 1h0m0s")
	})
}

// TestTheAPIAsksToComeAgain covers answers that refuse a request for the moment.
func TestTheAPIAsksToComeAgain(t *testing.T) {
	at := func(d time.Duration) string { return time.Now().Add(d).UTC().Format(http.TimeFormat) }
	const github = "X-RateLimit-Remaining"
	for name, c := range map[string]struct {
		op, extra string
		answer    func() *httpcall.Reply // the first one; the second is a success
		want      string
		sent      []string
	}{
		"a POST":        {"post", "", func() *httpcall.Reply { return reply(429, "Retry-After", "1") }, "ok at 1s", []string{"POST /things 0s", "POST /things 1s"}},
		"as a date":     {"post", "", func() *httpcall.Reply { return reply(429, "Retry-After", at(2*time.Second)) }, "ok at 2s", []string{"POST /things 0s", "POST /things 2s"}},
		"at once":       {"post", "", func() *httpcall.Reply { return reply(429, "Retry-After", "0") }, "ok at 0s", []string{"POST /things 0s", "POST /things 0s"}},
		"too late":      {"post", "", func() *httpcall.Reply { return reply(429, "Retry-After", "3") }, "RATE_LIMIT_EXCEEDED 3s at 0s", []string{"POST /things 0s"}},
		"no time":       {"post", "", func() *httpcall.Reply { return reply(429) }, "RATE_LIMIT_EXCEEDED at 0s", []string{"POST /things 0s"}},
		"never":         {"post", "rate_limits: {max_wait_ms: 0}", func() *httpcall.Reply { return reply(429, "Retry-After", "1") }, "RATE_LIMIT_EXCEEDED 1s at 0s", []string{"POST /things 0s"}},
		"403 of GitHub": {"post", "", func() *httpcall.Reply { return reply(403, "Retry-After", "1") }, "ok at 1s", []string{"POST /things 0s", "POST /things 1s"}},
		"GitHub's headers": {"post", "", func() *httpcall.Reply {
			return reply(403, github, "0", "X-RateLimit-Reset", fmt.Sprint(time.Now().Unix()+2))
		}, "ok at 2s", []string{"POST /things 0s", "POST /things 2s"}},
		"the IETF's":        {"post", "", func() *httpcall.Reply { return reply(429, "RateLimit", `"a";r=7, "b";r=0;t=1`) }, "ok at 1s", []string{"POST /things 0s", "POST /things 1s"}},
		"another 403":       {"post", "", func() *httpcall.Reply { return reply(403) }, "PERMISSION_DENIED at 0s", []string{"POST /things 0s"}},
		"503 to a GET":      {"list", "", func() *httpcall.Reply { return reply(503, "Retry-After", "1") }, "ok at 1s", []string{"GET /list 0s", "GET /list 1s"}},
		"503 to a POST":     {"post", "", func() *httpcall.Reply { return reply(503, "Retry-After", "1") }, "INTERNAL_ERROR at 0s", []string{"POST /things 0s"}},
		"503 without time":  {"list", "", func() *httpcall.Reply { return reply(503) }, "INTERNAL_ERROR at 0s", []string{"GET /list 0s"}},
		"500 with the time": {"list", "", func() *httpcall.Reply { return reply(500, "Retry-After", "1") }, "INTERNAL_ERROR at 0s", []string{"GET /list 0s"}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newBench(t, func(n int, _ *httpcall.Outgoing) (*httpcall.Reply, *failure.Failure) {
					if n == 1 {
						return c.answer(), nil
					}
					return reply(200), nil
				}, c.extra)
				same(t, b.calls(c.op), c.want)
				same(t, b.sent, c.sent...)
			})
		})
	}
}

// TestOthersKeepAwayWhileTheAPIAsks shows that a request is sent again only once, that its wait
// counts together with its wait for its turn, and that other calls are not sent in the meantime.
func TestOthersKeepAwayWhileTheAPIAsks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, func(n int, _ *httpcall.Outgoing) (*httpcall.Reply, *failure.Failure) {
			return reply(429, "Retry-After", "1"), nil
		}, "rate_limits: {requests_per_minute: 600}")
		same(t, b.calls("post", "list"), "RATE_LIMIT_EXCEEDED 1s at 1s", "RATE_LIMIT_EXCEEDED 1s at 2s")
		posts := 0
		for i, s := range b.sent { // with the end of the pause, either of them may come first
			if strings.HasPrefix(s, "POST") {
				posts++
			}
			if i > 0 && strings.HasSuffix(s, " 0s") {
				t.Error(b.sent)
			}
		}
		if posts != 2 {
			t.Error(b.sent)
		}
	})
}

func TestTheAPIsCountCorrectsTheCounters(t *testing.T) {
	epoch := func(d time.Duration) string { return fmt.Sprint(time.Now().Add(d).Unix()) }
	for name, c := range map[string]struct {
		limits  string
		headers func() []string
		wait    time.Duration // between the calls
		want    []string
	}{
		"GitHub": {"{requests_per_hour: 5000}", func() []string {
			return []string{"X-RateLimit-Limit", "5000", "X-RateLimit-Remaining", "1", "X-RateLimit-Reset", epoch(5 * time.Minute)}
		}, 0, []string{"ok at 0s", "ok at 0s", "RATE_LIMIT_EXCEEDED 5m0s at 0s"}},
		"then it is renewed": {"{requests_per_hour: 5000}", func() []string {
			return []string{"X-RateLimit-Remaining", "0", "X-RateLimit-Reset", "1"}
		}, time.Second, []string{"ok at 0s", "ok at 1s", "ok at 2s"}},
		"IETF, by its window": {"{requests_per_minute: 100, requests_per_hour: 5000}", func() []string {
			return []string{"RateLimit", `"hour";r=1;t=900`, "RateLimit-Policy", `"minute";q=10;w=60, "hour";q=10;w=3600`}
		}, 0, []string{"ok at 0s", "ok at 0s", "RATE_LIMIT_EXCEEDED 15m0s at 0s"}},
		"by its limit": {"{requests_per_minute: 100, requests_per_hour: 5000}", func() []string {
			return []string{"X-RateLimit-Limit", "5000", "X-RateLimit-Remaining", "1", "X-RateLimit-Reset", "900"}
		}, 0, []string{"ok at 0s", "ok at 0s", "RATE_LIMIT_EXCEEDED 15m0s at 0s"}},
		"of another limit": {"{requests_per_minute: 100, requests_per_hour: 5000}", func() []string {
			return []string{"X-RateLimit-Limit", "7", "X-RateLimit-Remaining", "1", "X-RateLimit-Reset", "900"}
		}, 0, []string{"ok at 0s", "ok at 0s", "ok at 0s"}},
		"a minute waits": {"{requests_per_minute: 60}", func() []string {
			return []string{"RateLimit", `limit=60, remaining=0, reset=1`}
		}, 0, []string{"ok at 0s", "ok at 1s", "ok at 2s"}},
		"nonsense": {"{requests_per_minute: 60}", func() []string {
			return []string{"RateLimit", `;;=,"`, "X-RateLimit-Remaining", "-1"}
		}, 0, []string{"ok at 0s", "ok at 0s", "ok at 0s"}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newBench(t, func(n int, _ *httpcall.Outgoing) (*httpcall.Reply, *failure.Failure) {
					if n > 1 && c.want[1] == "ok at 0s" { // the first answer counts
						return reply(200), nil
					}
					return reply(200, c.headers()...), nil
				}, "rate_limits: "+c.limits)
				var got []string
				for range 3 {
					got = append(got, b.call(context.Background(), Request{}, "list"))
					time.Sleep(c.wait)
				}
				same(t, got, c.want...)
			})
		})
	}
}

func TestLimitsPerCaller(t *testing.T) {
	for per, want := range map[string][]string{
		"":               {"ok at 0s", "ok at 0s", "RATE_LIMIT_EXCEEDED 1h0m0s at 0s"},
		", per: caller":  {"ok at 0s", "ok at 0s", "RATE_LIMIT_EXCEEDED 1h0m0s at 0s"},
		", per: adapter": {"ok at 0s", "RATE_LIMIT_EXCEEDED 1h0m0s at 0s", "RATE_LIMIT_EXCEEDED 1h0m0s at 0s"},
	} {
		synctest.Test(t, func(t *testing.T) {
			b := &bench{start: time.Now()}
			b.rt = one(t, Options{Callers: map[string]Callers{"test-api": {Headers: map[string]string{"Authorization": "X-Key"}}}},
				"https://api.example.com", status, "rate_limits: {requests_per_hour: 1"+per+"}", "auth: {type: bearer, token_env: T}")
			b.rt.send = func(context.Context, *adapter, *httpcall.Outgoing) (*httpcall.Reply, *failure.Failure) {
				return reply(200), nil
			}
			var got []string
			for _, key := range []string{"ann", "bob", "ann"} {
				got = append(got, b.call(context.Background(), Request{Headers: []file.Header{{Name: "X-Key", Value: key}}}, "get_status"))
			}
			same(t, got, want...)
		})
	}
}

func TestBreaker(t *testing.T) {
	down := func(code failure.Code) func() (*httpcall.Reply, *failure.Failure) {
		return func() (*httpcall.Reply, *failure.Failure) { return nil, &failure.Failure{Code: code} }
	}
	answers := func(status int) func() (*httpcall.Reply, *failure.Failure) {
		return func() (*httpcall.Reply, *failure.Failure) { return reply(status), nil }
	}
	for name, c := range map[string]struct {
		is   func() (*httpcall.Reply, *failure.Failure)
		down bool
	}{
		"refused": {down(failure.TransportRefused), true}, "DNS": {down(failure.TransportDNS), true}, "timeout": {down(failure.TransportTimeout), true},
		"TLS": {down(failure.TransportTLS), true}, "502": {answers(502), true}, "503": {answers(503), true}, "504": {answers(504), true},
		"400": {answers(400), false}, "401": {answers(401), false}, "404": {answers(404), false}, "429": {answers(429), false}, "500": {answers(500), false},
		"too large": {down(failure.ValidationPayloadTooLarge), false},
		"cancelled": {func() (*httpcall.Reply, *failure.Failure) { return nil, failure.Cancelled() }, false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newBench(t, func(int, *httpcall.Outgoing) (*httpcall.Reply, *failure.Failure) { return c.is() }, "breaker: {failures: 3, open_ms: 4000}")
				b.calls("list", "list", "list")
				last := b.calls("list")[0]
				if open := last == "TRANSPORT_CIRCUIT_OPEN 4s at 0s"; open != c.down || open != (len(b.sent) == 3) {
					t.Error(last, len(b.sent))
				}
			})
		})
	}
}

// TestBreakerOpensAndCloses follows a breaker with the default settings through all its states.
func TestBreakerOpensAndCloses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var up atomic.Bool
		b := newBench(t, func(int, *httpcall.Outgoing) (*httpcall.Reply, *failure.Failure) {
			time.Sleep(100 * time.Millisecond)
			if up.Load() {
				return reply(200), nil
			}
			return reply(503), nil
		}, "breaker: {}")
		state := func() string {
			s := query(b.rt, "quota_status", "")
			_, s, _ = strings.Cut(s, `"breaker":`)
			return strings.TrimSuffix(s, "}]}}")
		}
		call := func() string {
			b.start = time.Now()
			return b.call(context.Background(), Request{}, "post")
		}
		up.Store(true)
		call()
		up.Store(false)
		for range 4 {
			call()
		}
		up.Store(true)
		call() // a success in between: the failures are not in a row
		up.Store(false)
		for range 4 {
			call()
		}
		conforms(t, "quotaStatus", query(b.rt, "quota_status", ""))
		same(t, []string{state(), call(), state(), call()}, `{"state":"closed","failures":4}`, "INTERNAL_ERROR at 100ms", `{"state":"open","failures":5,"retry_after_seconds":10}`, "TRANSPORT_CIRCUIT_OPEN 10s at 0s")
		r := b.rt.Dispatch(context.Background(), Endpoint{}, &Request{Body: []byte(`{"operation":"post"}`)})
		same(t, []string{fmt.Sprint(r.HTTPStatus()), r.RetryAfter(), fmt.Sprint(r.IsError())}, "503", "10", "true")
		for _, next := range []string{"20s", "40s", "1m0s", "1m0s"} {
			time.Sleep(time.Minute)
			sent := len(b.sent)
			got := b.calls("post", "list", "get_status") // only the probe is sent
			if len(b.sent) != sent+1 || !strings.HasPrefix(got[0], "INTERNAL_ERROR") || !strings.HasPrefix(got[1], "TRANSPORT_CIRCUIT_OPEN 1s") {
				t.Error(got, b.sent[sent:])
			}
			same(t, []string{call()}, "TRANSPORT_CIRCUIT_OPEN "+next+" at 0s")
		}
		time.Sleep(time.Minute)
		up.Store(true)
		ctx, leave := context.WithCancel(context.Background())
		leave()
		b.rt.Dispatch(ctx, Endpoint{}, &Request{Body: []byte(`{"operation":"post"}`)})
		same(t, []string{call(), state(), call()}, "ok at 100ms", `{"state":"closed","failures":0}`, "ok at 100ms")
	})
}

// TestAProbeThatIsCancelledIsNotTheLast shows that the next call tries the API if the client of
// the first probe left.
func TestAProbeThatIsCancelledIsNotTheLast(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		answer := failure.Cancelled()
		b := newBench(t, func(n int, _ *httpcall.Outgoing) (*httpcall.Reply, *failure.Failure) {
			switch n {
			case 1:
				return reply(502), nil
			case 2:
				return nil, answer
			case 3:
				panic("a defect")
			}
			return reply(200), nil
		}, "breaker: {failures: 1, open_ms: 1000}")
		b.calls("list")
		time.Sleep(time.Second)
		b.calls("list")
		b.calls("list")
		same(t, b.calls("list"), "ok at 1s")
	})
}

// TestWaitingOverSockets: many clients call an API that really limits, some of them leave.
func TestWaitingOverSockets(t *testing.T) {
	var inside, most, served atomic.Int32
	s := api(t, func(w http.ResponseWriter, r *http.Request) {
		n := inside.Add(1)
		defer inside.Add(-1)
		for old := most.Load(); n > old && !most.CompareAndSwap(old, n); old = most.Load() {
		}
		io.Copy(io.Discard, r.Body)
		if served.Add(1) == 1 {
			w.Header().Set("Retry-After", "1")
			w.WriteHeader(429)
			return
		}
		time.Sleep(10 * time.Millisecond)
		io.WriteString(w, "1")
	})
	rt := one(t, Options{}, s.URL, twoOps, "rate_limits: {concurrent_requests: 3, max_wait_ms: 60000}")
	var wg sync.WaitGroup
	var left, good atomic.Int32
	for i := range 40 {
		wg.Go(func() {
			ctx, leave := context.WithCancel(context.Background())
			defer leave()
			if i%4 == 0 {
				time.AfterFunc(time.Duration(i)*time.Millisecond, leave)
			}
			r := rt.Dispatch(ctx, Endpoint{}, &Request{Body: []byte(`{"operation":"post"}`)})
			switch {
			case r.Cancelled && i%4 == 0:
				left.Add(1)
			case r.Failure == nil:
				good.Add(1)
			default:
				t.Error(i, r.Failure, r.Failure.Cause)
			}
		})
	}
	wg.Wait()
	if most.Load() > 3 || good.Load()+left.Load() != 40 || good.Load() < 30 {
		t.Error(most.Load(), good.Load(), left.Load())
	}
}

func TestWaitAndBreakerMistakes(t *testing.T) {
	_, problems := Parse("test-api-adapter.md", []byte(front("https://api.example.com", status,
		"rate_limits: {max_wait_ms: 60001, per: team}", "breaker: {failures: 0, open_ms: 99, opens: 1}")), &Options{})
	var got []string
	for _, p := range problems {
		if p.Severity == file.Error {
			got = append(got, p.Path)
		}
	}
	slices.Sort(got)
	same(t, got, "breaker.failures", "breaker.open_ms", "breaker.opens", "rate_limits.max_wait_ms", "rate_limits.per")
}

// TestExamplesDoNotWait shows that an example of an answer that asks to wait has one request.
func TestExamplesDoNotWait(t *testing.T) {
	const example = "```golden\n{\"operation\":\"get_status\"}\n-- sends --\nGET https://api.example.com/status\n-- receives --\n429 application/json\nRetry-After: 1\n{}\n-- want --\n" +
		`{"success":false,"error":{"code":"RATE_LIMIT_EXCEEDED","message":"Rate limit exceeded: 429 Too Many Requests","details":{"http_status":429,"upstream_error":"429 Too Many Requests","operation":"get_status","retry_after_seconds":1,"resets_at":"2026-01-01T00:00:01Z"}}}` + "\n```\n"
	done, problems := Rehearse("test-api-adapter.md", []byte(front("https://api.example.com", status, "breaker: {failures: 1}")+example), &Options{})
	if len(done) != 1 || done[0].Fault != "" {
		t.Error(done, problems)
	}
}

// TestBreakerOverSockets: an API goes away and comes back at the same address.
func TestBreakerOverSockets(t *testing.T) {
	address := peertest.Port(t)
	rt := one(t, Options{}, "http://"+address, twoOps, "breaker: {failures: 2, open_ms: 100}")
	call := func() failure.Code {
		r := rt.Dispatch(context.Background(), Endpoint{}, &Request{Body: []byte(`{"operation":"post"}`)})
		return r.Call.Outcome
	}
	if got := []failure.Code{call(), call()}; got[0] != failure.TransportRefused || got[1] != failure.TransportRefused || rt.live.Load().adapters[0].guard.Breaker() != "open" {
		t.Error(got)
	}
	l, err := net.Listen("tcp", address)
	if err != nil {
		t.Skip("the port is in use: ", err)
	}
	s := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "1") })}
	go s.Serve(l)
	defer s.Close()
	for end := time.Now().Add(time.Minute); ; time.Sleep(20 * time.Millisecond) {
		got := call()
		if got == "" {
			break
		}
		if got != failure.TransportCircuitOpen || time.Now().After(end) {
			t.Fatal(got)
		}
	}
	if state := rt.live.Load().adapters[0].guard.Breaker(); state != guard.BreakerClosed {
		t.Error(state)
	}
}
