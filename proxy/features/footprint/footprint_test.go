package footprint

import (
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"

	"github.com/dragoman-proxy/dragoman/proxy/config"
	"github.com/dragoman-proxy/dragoman/translate"
)

func TestCompactLength(t *testing.T) {
	if got := compactLen(` { "a b" : [ 1 , "\" \\" ] } `); got != len(`{"a b":[1,"\" \\"]}`) {
		t.Errorf("compact length %d", got)
	}
}

// TestAnEmptyCursorIsMeasuredAsTheClientReadsIt: it ends the list of a client with a handshake, and no other list.
func TestAnEmptyCursorIsMeasuredAsTheClientReadsIt(t *testing.T) {
	for _, client := range translate.All() {
		var l List
		g := &Gauge{Bytes: prometheus.NewGauge(prometheus.GaugeOpts{Name: "bytes"})}
		policy := NewPolicy(&config.Footprint{})
		for _, page := range []string{`{"result":{"tools":["one"],"nextCursor":""}}`, `{"result":{"tools":["two"]}}`} {
			l.Slim([]byte(page), client, policy, g, zap.NewNop)
		}
		want := len(`["one"]`)
		if client.EmptyCursor {
			want = len(`["one","two"]`)
		}
		registry := prometheus.NewRegistry()
		registry.MustRegister(g.Bytes)
		all, err := registry.Gather()
		if err != nil {
			t.Fatal(err)
		}
		if got := all[0].Metric[0].GetGauge().GetValue(); got != float64(want) {
			t.Errorf("%s: %v bytes, want %d", client, got, want)
		}
	}
}
