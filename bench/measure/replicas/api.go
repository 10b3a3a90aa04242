package replicas

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"sync"
	"time"
)

// The limit of the API's operation get_limited, which all callers share.
const (
	limitPerMinute = 1200
	limitBurst     = 20
	// limitSlack is how many requests may arrive early, because those before them were longer on their way.
	limitSlack = 4
)

// adapterFile is the adapter of an API at an address.
const adapterFile = `---
name: counted
type: adapter
version: "1.0.0"
description: "An API that counts what reaches it"
target:
  base_url: "http://%s"
  transport: http
  protocol: rest
  serialization: json
operations:
  read:
    - name: get_limited
      maps_to: "GET /limited"
      description: "Get a number, not too often"
      rate_limits: {requests_per_minute: %d, burst_limit: %d, max_wait_ms: 0, per: adapter}
    - name: get_generous
      maps_to: "GET /generous"
      description: "Get a number, as often as anything needs"
      rate_limits: {requests_per_minute: 1000000, burst_limit: 1000000, per: adapter}
    - name: get_free
      maps_to: "GET /free"
      description: "Get a number"
  delete:
    - name: delete_item
      maps_to: "DELETE /items/{id}"
      description: "Delete an item"
      danger: {level: destructive, requires_confirmation: true}
      params: {id: {type: string, required: true, description: "Id"}}
---
`

// api is an HTTP API that judges the requests that reach it.
type api struct {
	web *httptest.Server

	mu      sync.Mutex
	deleted map[string]int // how often each item was deleted
	twice   []string
	level   float64 // of a bucket that leaks as fast as the limit permits
	most    float64
	last    time.Time
	over    int // requests that the limit forbids
	limited int
	room    float64   // what the bucket holds
	again   time.Time // when counting begins anew
}

// startAPI starts an API, and writes its adapter into dir.
func startAPI(dir string) (*api, error) {
	a := &api{deleted: map[string]int{}, room: limitBurst + limitSlack}
	a.web = httptest.NewServer(a)
	text := fmt.Appendf(nil, adapterFile, a.web.Listener.Addr(), limitPerMinute, limitBurst)
	if err := os.WriteFile(filepath.Join(dir, "counted-adapter.md"), text, 0o600); err != nil {
		a.web.Close()
		return nil, err
	}
	return a, nil
}

func (a *api) close() {
	a.web.CloseClientConnections()
	a.web.Close()
}

func (a *api) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch {
	case r.URL.Path == "/limited":
		a.count(time.Now())
	case r.Method == http.MethodDelete:
		a.mu.Lock()
		if a.deleted[r.URL.Path]++; a.deleted[r.URL.Path] > 1 {
			a.twice = append(a.twice, r.URL.Path)
		}
		a.mu.Unlock()
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write([]byte(`{"number":7}`))
}

func (a *api) count(now time.Time) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.limited++
	if now.Before(a.again) {
		a.level, a.last = 0, now
		return
	}
	if !a.last.IsZero() {
		a.level = max(0, a.level-now.Sub(a.last).Minutes()*limitPerMinute)
	}
	a.last = now
	a.level++
	a.most = max(a.most, a.level)
	if a.level > a.room {
		a.over++
		a.level--
	}
}

// forgive begins to count anew after a time. Meanwhile the replicas have no count in common, and each counts for itself.
func (a *api) forgive(after time.Duration) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.again = time.Now().Add(after)
}
