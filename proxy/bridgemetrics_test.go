package proxy

import (
	"testing"

	"github.com/tidwall/gjson"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/dragoman-proxy/dragoman/translate"
)

func TestWhatIsHeldForClientsWithoutASessionShowsInTheMetrics(t *testing.T) {
	f, gate := asksName(nameQuestion)
	srv := front(t, f)
	gauge := func(name string) (n float64) {
		families, err := srv.metrics.Registry.Gather()
		if err != nil {
			t.Fatal(err)
		}
		for _, family := range families {
			if family.GetName() == name {
				return family.GetMetric()[0].GetGauge().GetValue()
			}
		}
		t.Fatalf("no %s", name)
		return 0
	}
	if s, c := gauge("dragoman_bridge_sessions"), gauge("dragoman_bridge_parked_calls"); s != 0 || c != 0 {
		t.Errorf("before: %v sessions, %v calls", s, c)
	}
	r := srv.modernly(modernCall("7", ""))
	if s, c := gauge("dragoman_bridge_sessions"), gauge("dragoman_bridge_parked_calls"); s != 1 || c != 1 {
		t.Errorf("while the client is asked: %v sessions, %v calls", s, c)
	}
	open(f, gate)
	if r := srv.modernly(retryOf("8", ada, r)); gjson.Get(r.body, "result.resultType").String() != "complete" {
		t.Fatalf("%+v", r)
	}
	if s, c := gauge("dragoman_bridge_sessions"), gauge("dragoman_bridge_parked_calls"); s != 1 || c != 0 {
		t.Errorf("after: %v sessions, %v calls", s, c)
	}
}

// TestWhatTheServerIsIsSaidOnce shows that a thousand credentials do not make a
// thousand lines.
func TestWhatTheServerIsIsSaidOnce(t *testing.T) {
	core, logs := observer.New(zap.InfoLevel)
	p := &eraCache{}
	log := zap.New(core)
	shakes, both := &serverEra{shakes: true}, &serverEra{shakes: true, revision: translate.Lookup(translate.Modern())}
	for _, e := range []*serverEra{shakes, shakes, both, both, shakes} {
		log.Log(p.logLevel(e), "server identified", e.fields()...)
	}
	if n := logs.Len(); n != 3 {
		t.Errorf("%d lines: %v", n, logs.All())
	}
}
