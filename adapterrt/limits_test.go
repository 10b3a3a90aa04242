package adapterrt

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dragoman-proxy/dragoman/adapterrt/failure"
	"github.com/dragoman-proxy/dragoman/adapterrt/httpcall"
)

func limited(t *testing.T, ck *clock, limits string) (*Runtime, *int) {
	t.Helper()
	n := 0
	rt := one(t, Options{Now: ck.now}, "https://api.example.com", status+"\ncreate:\n- {name: post, maps_to: POST /things, description: P}\n- {name: own, maps_to: POST /own, description: P, rate_limits: {requests_per_day: 1}}", "rate_limits: "+limits)
	rt.send = func(context.Context, *adapter, *httpcall.Outgoing) (*httpcall.Reply, *failure.Failure) {
		n++
		return &httpcall.Reply{Status: 200, Header: http.Header{}, Body: []byte("1")}, nil
	}
	return rt, &n
}

func TestRateLimits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ck := &clock{at: someTime()}
		rt, n := limited(t, ck, "{requests_per_minute: 2}")
		const get, post = `{"operation":"get_status"}`, `{"operation":"post"}`
		for i, want := range []string{`"data":1`, `"data":1`, `{"success":false,"error":{"code":"RATE_LIMIT_EXCEEDED","message":"Rate limit exceeded: 2 per minute","details":{"limit":2,"remaining":0,"window":"minute","resets_at":"2026-01-02T03:04:35Z","retry_after_seconds":30}}}`} {
			if got := ask(rt, Endpoint{}, get); !strings.Contains(got, want) {
				t.Error(i, got)
			}
		}
		ck.pass(30 * time.Second)
		if ask(rt, Endpoint{}, post); *n != 3 {
			t.Error(*n)
		}
		if got := ask(rt, Endpoint{}, post); !strings.Contains(got, "RATE_LIMIT_EXCEEDED") || *n != 3 {
			t.Error(got)
		}

		rt, n = limited(t, ck, `{api_limits: [{scope: endpoint, endpoint: "POST /th*", limit: 1, window: second}, {scope: category, category: READ, limit: 2, window: hour}]}`)
		for range 5 {
			ask(rt, Endpoint{}, get)
			ask(rt, Endpoint{}, post)
		}
		if *n != 3 {
			t.Error(*n)
		}
		ck.pass(time.Second)
		if ask(rt, Endpoint{}, post); *n != 4 {
			t.Error(*n)
		}

		rt, n = limited(t, ck, "{requests_per_minute: 60, burst_limit: 3}")
		for range 10 {
			ask(rt, Endpoint{}, get)
		}
		if *n != 3 {
			t.Error(*n)
		}
		rt, n = limited(t, ck, "{requests_per_minute: 60}")
		for range 3 {
			ask(rt, Endpoint{}, `{"operation":"own"}`)
		}
		if *n != 1 {
			t.Error(*n)
		}
		// Counters survive a reload that does not change the limits.
		file := rt.Adapters()[0].File
		text, _ := os.ReadFile(file)
		os.WriteFile(file, append(text, "more\n"...), 0o600)
		if _, changed, _ := rt.Reload([]string{file}); !changed {
			t.Fatal("no reload")
		}
		if ask(rt, Endpoint{}, `{"operation":"own"}`); *n != 1 {
			t.Error("a reload gave new calls away")
		}
	})
}

func TestConcurrentRequests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rt := one(t, Options{}, "https://api.example.com", status, "rate_limits: {concurrent_requests: 1}")
		inside, release := make(chan struct{}), make(chan struct{})
		rt.send = func(context.Context, *adapter, *httpcall.Outgoing) (*httpcall.Reply, *failure.Failure) {
			close(inside)
			<-release
			return &httpcall.Reply{Status: 200, Header: http.Header{}}, nil
		}
		done := make(chan string)
		go func() { done <- ask(rt, Endpoint{}, `{"operation":"get_status"}`) }()
		<-inside
		if got := ask(rt, Endpoint{}, `{"operation":"get_status"}`); !strings.Contains(got, `"window":"concurrent"`) {
			t.Error(got)
		}
		close(release)
		if got := <-done; got != `{"success":true,"data":null}` {
			t.Error(got)
		}
		rt.send = func(context.Context, *adapter, *httpcall.Outgoing) (*httpcall.Reply, *failure.Failure) { panic("x") }
		ask(rt, Endpoint{}, `{"operation":"get_status"}`)
		if got := ask(rt, Endpoint{}, `{"operation":"get_status"}`); strings.Contains(got, `"window":"concurrent"`) {
			t.Error("a defect kept its place", got)
		}
	})
}

func TestRateLimitHeadersCorrectTheCounters(t *testing.T) {
	ck := &clock{at: someTime()}
	rt := one(t, Options{Now: ck.now}, "https://api.example.com", status, "rate_limits: {api_limits: [{limit: 1000, window: hour, remaining_header: X-Left, reset_header: X-Reset}]}")
	n, answer := 0, &httpcall.Reply{}
	rt.send = func(context.Context, *adapter, *httpcall.Outgoing) (*httpcall.Reply, *failure.Failure) {
		n++
		return answer, nil
	}
	call := func() string { return ask(rt, Endpoint{}, `{"operation":"get_status"}`) }
	answer = &httpcall.Reply{Status: 200, Header: http.Header{"X-Left": {"0"}, "X-Reset": {fmt.Sprint(ck.now().Add(90 * time.Second).Unix())}}, Body: []byte("1")}
	call()
	if got := call(); !strings.Contains(got, `"retry_after_seconds":90`) || n != 1 {
		t.Error(got, n)
	}
	ck.pass(90 * time.Second)
	answer = &httpcall.Reply{Status: 429, Header: http.Header{"X-Left": {"0"}, "X-Reset": {"5"}}, Body: []byte("{}")}
	if got := call(); !strings.Contains(got, `"retry_after_seconds":5`) || n != 2 {
		t.Error(got, n)
	}
	ck.pass(5 * time.Second)
	answer = &httpcall.Reply{Status: 429, Header: http.Header{"Retry-After": {"7"}}, Body: []byte("{}")}
	call()
	if got := call(); !strings.Contains(got, `"retry_after_seconds":7`) || n != 3 {
		t.Error(got, n)
	}
	ck.pass(7 * time.Second)
	if call(); n != 4 {
		t.Error(n)
	}
}

func TestRateLimitReset(t *testing.T) {
	now := someTime()
	for n, want := range map[int64]time.Duration{
		90:                                    90 * time.Second,
		now.Add(90 * time.Second).Unix():      90 * time.Second,
		now.Add(90 * time.Second).UnixMilli(): 90 * time.Second,
		0:                                     0,
		1 << 40:                               time.UnixMilli(1 << 40).Sub(now),
		1<<63 - 1:                             366 * 24 * time.Hour,
	} {
		if got := httpcall.ResetTime(n, now).Sub(now); got != want {
			t.Errorf("%d: %s, want %s", n, got, want)
		}
	}
}

// TestARateLimitBy403Waits shows that an API that sends 403 for too many requests gets no
// calls until its limit resets, as after 429, and that any other 403 has no such effect.
func TestARateLimitBy403Waits(t *testing.T) {
	ck := &clock{at: someTime()}
	rt := one(t, Options{Now: ck.now}, "https://api.example.com", status, "rate_limits: {requests_per_hour: 1000}")
	n, answer := 0, &httpcall.Reply{}
	rt.send = func(context.Context, *adapter, *httpcall.Outgoing) (*httpcall.Reply, *failure.Failure) {
		n++
		return answer, nil
	}
	call := func() string { return ask(rt, Endpoint{}, `{"operation":"get_status"}`) }
	answer = &httpcall.Reply{Status: 403, Header: http.Header{}, Body: []byte(`{"message":"no"}`)}
	call()
	if got := call(); n != 2 || !strings.Contains(got, "PERMISSION_DENIED") {
		t.Error(n, got)
	}
	answer = &httpcall.Reply{Status: 403, Header: http.Header{"X-Ratelimit-Remaining": {"0"}, "X-Ratelimit-Reset": {fmt.Sprint(ck.now().Add(time.Minute).Unix())}}, Body: []byte(`{"message":"slow down"}`)}
	call()
	if got := call(); n != 3 || !strings.Contains(got, `"retry_after_seconds":60`) {
		t.Error(n, got)
	}
	ck.pass(time.Minute)
	if call(); n != 4 {
		t.Error(n)
	}
}

func TestQuotas(t *testing.T) {
	ck := &clock{at: someTime()}
	rt, n := limited(t, ck, "{quotas: {enabled: true, limits: [{metric: calls_per_hour, warn: 1, pause: 3, hard_stop: 5}]}}")
	call := func(params string) string {
		return ask(rt, Endpoint{}, `{"operation":"get_status","params":`+params+`}`)
	}
	status := func() string { return query(rt, "quota_status", "") }
	if got := status(); !strings.Contains(got, `"status":"ok"`) {
		t.Error(got)
	}
	if got := call(`{}`); got != `{"success":true,"data":1}` {
		t.Error(got)
	}
	if got := call(`{}`); got != `{"success":true,"data":1,"warnings":[{"code":"RATE_LIMIT_QUOTA_WARNING","message":"Quota nearly used: 1 calls_per_hour","details":{"metric":"calls_per_hour","used":1,"resets_at":"2026-01-02T04:00:00Z","limit":1},"severity":"medium"}]}` {
		t.Error(got)
	}
	call(`{}`)
	var v struct {
		Error struct {
			Code    string
			Details struct {
				Token string `json:"continue_token"`
			}
		}
	}
	if err := json.Unmarshal([]byte(call(`{}`)), &v); err != nil || v.Error.Code != "RATE_LIMIT_QUOTA_PAUSE" || *n != 3 {
		t.Fatal(v, *n)
	}
	if got := call(`{"_quota_continue":"quota_continue_0"}`); !strings.Contains(got, "RATE_LIMIT_QUOTA_PAUSE") {
		t.Error(got)
	}
	for range 2 {
		if got := call(`{"_quota_continue":"` + v.Error.Details.Token + `"}`); !strings.Contains(got, `"data":1`) {
			t.Error(got)
		}
	}
	if got := call(`{"_quota_continue":"` + v.Error.Details.Token + `"}`); !strings.Contains(got, `"code":"RATE_LIMIT_QUOTA_EXHAUSTED","message":"Quota exhausted: 5 calls_per_hour"`) || *n != 5 {
		t.Error(got)
	}
	if got := status(); got != `{"success":true,"data":{"quota_status":[{"adapter":"test-api","status":"exhausted","limits":[{"metric":"calls_per_hour","used":5,"status":"exhausted","resets_at":"2026-01-02T04:00:00Z","warn":1,"pause":3,"hard_stop":5}]}]}}` {
		t.Error(got)
	}
	ck.pass(time.Hour)
	if got := call(`{}`); got != `{"success":true,"data":1}` {
		t.Error(got)
	}
}

func TestLimitMistakes(t *testing.T) {
	for _, limits := range []string{"{requests_per_minute: 0}", "{concurrent_requests: many}", "{api_limits: [{window: hour}]}", "{api_limits: [{limit: 1, window: year}]}", "{api_limits: [{limit: 1, scope: endpoint}]}",
		"{api_limits: [{limit: 1, scope: endpoint, endpoint: '['}]}", "{api_limits: [{limit: 1, scope: category, category: odd}]}", "{api_limits: [5]}"} {
		if a, _ := Parse("test-api-adapter.md", []byte(front("https://api.example.com", status, "rate_limits: "+limits)), &Options{}); a != nil {
			t.Error(limits, "passed")
		}
	}
}
