package metrics

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil/promlint"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/dragoman-proxy/dragoman/adapterrt"
	"github.com/dragoman-proxy/dragoman/proxy/ops/trace"
	"github.com/dragoman-proxy/dragoman/proxy/pipes/failures"
	"github.com/dragoman-proxy/dragoman/transform"
	"github.com/dragoman-proxy/dragoman/translate"
	"github.com/dragoman-proxy/dragoman/translate/wire"
)

func none() float64 { return 0 }

// gathered returns the value of the counter with these labels, or the number of
// observations of the histogram with them; -1 if there is none.
func gathered(t *testing.T, r prometheus.Gatherer, name string, labels map[string]string) float64 {
	t.Helper()
	families, err := r.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		if f.GetName() != name {
			continue
		}
	metric:
		for _, m := range f.Metric {
			for _, l := range m.Label {
				if want, ok := labels[l.GetName()]; ok && want != l.GetValue() {
					continue metric
				}
			}
			if h := m.GetHistogram(); h != nil {
				return float64(h.GetSampleCount())
			}
			return m.GetCounter().GetValue() + m.GetGauge().GetValue()
		}
	}
	return -1
}

// TestNamesAreThoseOfPrometheus checks that Prometheus' own linter finds no fault in
// /metrics.
func TestNamesAreThoseOfPrometheus(t *testing.T) {
	m := New("v", none, none)
	NewResults(m)
	families, err := m.Registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	problems, err := promlint.NewWithMetricFamilies(families).Lint()
	if err != nil || len(problems) > 0 {
		t.Errorf("%v %v", problems, err)
	}
}

// TestRequestsAreCountedOnce checks the outcomes. A result that asks for the call to be
// made again is not the end of the request.
func TestRequestsAreCountedOnce(t *testing.T) {
	m := New("v", none, none)
	client, server := translate.Oldest(), translate.Latest()
	for _, how := range []Outcome{Succeeded, Succeeded, inputRequired, ToolError, Left} {
		m.Request(&Operation{Client: client, Server: server, Method: wire.ToolsCall, Outcome: how, Began: time.Now()})
	}
	m.Unserved(client, wire.ToolsCall, Failed)
	for how, want := range map[Outcome]float64{Succeeded: 2, inputRequired: -1, ToolError: 1, Left: 1, Failed: 1} {
		if n := gathered(t, m.Registry, "dragoman_requests_total", map[string]string{"outcome": string(how), "method": "tools/call"}); n != want {
			t.Errorf("%s: %v, want %v", how, n, want)
		}
	}
	if n := gathered(t, m.Registry, "dragoman_requests_total", map[string]string{"outcome": "failed", "server": "unknown"}); n != 1 {
		t.Errorf("of an unknown server: %v", n)
	}
}

func TestOutcomes(t *testing.T) {
	for want, m := range map[Outcome]*wire.Message{
		Succeeded: {Kind: wire.Result}, Errored: {Kind: wire.Error}, ToolError: {Kind: wire.Result, ToolError: true},
		inputRequired: {Kind: wire.Result, InputRequired: true},
	} {
		if got := OutcomeOf(m); got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
}

func TestHandshakesNameWhatIsKnown(t *testing.T) {
	m := New("v", none, none)
	m.Handshake(translate.Oldest(), nil, Failed, failures.ConnectTimeout)
	labels := map[string]string{"client": translate.Oldest().Name, "server": "unknown", "outcome": "failed", "cause": string(failures.ConnectTimeout)}
	if n := gathered(t, m.Registry, "dragoman_handshakes_total", labels); n != 1 {
		t.Errorf("%v", n)
	}
}

func TestTimeOfTranslationIsMeasured(t *testing.T) {
	m := New("v", none, none)
	m.Spent(&trace.Stopwatch{Parse: time.Millisecond, Upstream: time.Second})
	if n := gathered(t, m.Registry, "dragoman_translate_seconds", nil); n != 1 {
		t.Errorf("%v", n)
	}
}

// TestAdapterCallsAreCounted checks that labels are the names in the file, and that there
// are no series for what did not occur.
func TestAdapterCallsAreCounted(t *testing.T) {
	m := New("v", none, none)
	m.AdapterCall(&adapterrt.Record{Adapter: "a", Operation: "o", Bytes: 7, Gate: "passed", Breaker: "open"}, "success")
	if n := gathered(t, m.Registry, "dragoman_adapter_breaker_open", map[string]string{"adapter": "a"}); n != 1 {
		t.Error("an open breaker is", n)
	}
	m.AdapterCall(&adapterrt.Record{Adapter: "b", Operation: "o", Waited: time.Second, Breaker: "closed"}, "success")
	for name, want := range map[string]float64{"dragoman_adapter_breaker_open": 0, "dragoman_adapter_wait_seconds": 1} {
		if n := gathered(t, m.Registry, name, map[string]string{"adapter": "b"}); n != want {
			t.Errorf("%s: %v, want %v", name, n, want)
		}
	}
	for name, want := range map[string]float64{
		"dragoman_adapter_requests_total": 1, "dragoman_adapter_request_seconds": 1, "dragoman_adapter_response_bytes_total": 7,
		"dragoman_adapter_gates_total": 1, "dragoman_adapter_cache_total": -1, "dragoman_adapter_upstream_seconds": -1,
		"dragoman_adapter_wait_seconds": -1,
	} {
		if n := gathered(t, m.Registry, name, map[string]string{"adapter": "a"}); n != want {
			t.Errorf("%s: %v, want %v", name, n, want)
		}
	}
}

// TestToolNamesOfClientsAreNoLabels checks that a tool is named if a tool list contains it, up to a
// number of tools.
func TestToolNamesOfClientsAreNoLabels(t *testing.T) {
	m := New("v", none, none)
	l := NewResults(m)
	note := func(tool string, listed bool) {
		l.Note(zap.NewNop(), tool, listed, &transform.Report{}, time.Millisecond)
	}
	note("invented", false)
	for i := range maxToolLabels + 5 {
		note(fmt.Sprint("tool", i), true)
	}
	for tool, want := range map[string]float64{"invented": -1, unknownTools: 1, "tool0": 1, otherTools: 5} {
		if n := gathered(t, m.Registry, "dragoman_transform_results_total", map[string]string{"tool": tool}); n != want {
			t.Errorf("%s: %v, want %v", tool, n, want)
		}
	}
}

// TestConflictsAreLoggedOnce checks that a conflict is logged once for each tool, and other
// errors never.
func TestConflictsAreLoggedOnce(t *testing.T) {
	core, logs := observer.New(zap.DebugLevel)
	l := NewResults(New("v", none, none))
	for _, err := range []error{&transform.SchemaError{Tool: "a"}, &transform.SchemaError{Tool: "a"}, &transform.SchemaError{Tool: "b"}, errors.New("other")} {
		l.Conflict(zap.New(core), err)
	}
	if n := logs.Len(); n != 2 {
		t.Errorf("%d lines", n)
	}
}
