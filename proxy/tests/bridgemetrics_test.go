package tests

import (
	"testing"

	"github.com/tidwall/gjson"
)

func TestMetricsOfModernClients(t *testing.T) {
	f, gate := asksName(nameQuestion)
	srv := front(t, f)
	gauge := func(name string) (n float64) {
		families, err := srv.Metrics.Registry.Gather()
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
