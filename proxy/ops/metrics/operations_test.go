package metrics

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dragoman-proxy/dragoman/proxy/pipes/failures"
	"github.com/dragoman-proxy/dragoman/translate"
	"github.com/dragoman-proxy/dragoman/translate/wire"
)

// list returns a result of tools/list with n tools.
func list(n int) []byte {
	var entries []string
	for i := range n {
		entries = append(entries, fmt.Sprintf(`{"name":"tool%d","inputSchema":{"type":"object"}}`, i))
	}
	return []byte(`{"tools":[` + strings.Join(entries, ",") + `]}`)
}

// sample is one metric of a family.
type sample struct {
	labels    map[string]string
	value     float64 // of a gauge; the sum of a histogram
	count     uint64  // of a histogram
	native    bool    // it has native buckets of factor 1.1
	exemplars []string
}

// family returns the metrics of a family that have all these labels.
func family(t *testing.T, m *Metrics, name string, labels map[string]string) (found []sample) {
	t.Helper()
	families, err := m.Registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		for _, one := range f.Metric {
			s := sample{labels: map[string]string{}, value: one.GetGauge().GetValue()}
			for _, l := range one.Label {
				s.labels[l.GetName()] = l.GetValue()
			}
			if h := one.Histogram; h != nil {
				s.value, s.count, s.native = h.GetSampleSum(), h.GetSampleCount(), len(h.PositiveSpan) > 0 && h.GetSchema() == 3
				for _, b := range h.Bucket {
					for _, l := range b.GetExemplar().GetLabel() {
						s.exemplars = append(s.exemplars, l.GetName()+"="+l.GetValue())
					}
				}
			}
			has := f.GetName() == name
			for l, want := range labels {
				got, ok := s.labels[l]
				has = has && ok && got == want
			}
			if has {
				found = append(found, s)
			}
		}
	}
	return found
}

// series returns how many series Prometheus gets of all metrics, in its text format.
func series(t *testing.T, m *Metrics) (n int) {
	t.Helper()
	families, err := m.Registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		for _, one := range f.Metric {
			switch {
			case one.Histogram != nil:
				n += len(one.Histogram.Bucket) + 3 // +Inf, sum and count
			case one.Summary != nil:
				n += len(one.Summary.Quantile) + 2
			default:
				n++
			}
		}
	}
	return n
}

func call(m *Metrics, client, tool string, how Outcome, why Fault) {
	m.Request(&Operation{
		Client: translate.Lookup(client), Server: translate.Latest(), Method: wire.ToolsCall, Tool: m.Tools.Of([]byte(`"` + tool + `"`)),
		Outcome: how, Fault: why, Began: time.Now().Add(-time.Second), Waited: time.Millisecond,
	})
}

func TestOperationsHaveTheLabelsOfTheConventions(t *testing.T) {
	for _, c := range []struct {
		how        Outcome
		why        Fault
		kind, code string
	}{
		{Succeeded, Fault{}, "", ""},
		{Local, Fault{}, "", ""},
		{ToolError, Fault{}, "tool_error", ""},
		{Errored, Fault{Code: -32602}, "-32602", "-32602"},
		{Errored, Fault{Code: -99}, otherFault, otherFault},
		{Errored, Fault{}, otherFault, ""},
		{Failed, Fault{Cause: failures.Refused, Code: -32603}, "refused", "-32603"},
		{Refused, Fault{Cause: failures.Busy, Code: -32603}, "busy", "-32603"},
		{Cancelled, Fault{}, "cancelled", ""},
		{Left, Fault{}, "client_left", ""},
	} {
		m := New("v", none, none)
		m.Connect(Ends{Client: "pipe", Server: "tcp", Address: "mcp.example"})
		m.Tools.Learn(list(1))
		call(m, "2025-06-18", "tool0", c.how, c.why)
		labels := map[string]string{
			"mcp_method_name": "tools/call", "gen_ai_tool_name": "tool0", "error_type": c.kind, "rpc_response_status_code": c.code,
			"mcp_protocol_version": "2025-06-18", "network_transport": "pipe",
		}
		found := family(t, m, "mcp_server_operation_duration_seconds", labels)
		if len(found) != 1 || len(found[0].labels) != len(labels) || found[0].value < 1 {
			t.Errorf("%s %v: %v", c.how, c.why, found)
		}
		labels["mcp_protocol_version"], labels["network_transport"], labels["server_address"] = translate.Latest().Name, "tcp", "mcp.example"
		found = family(t, m, "mcp_client_operation_duration_seconds", labels)
		if len(found) != 1 || len(found[0].labels) != len(labels) || found[0].value != .001 {
			t.Errorf("%s %v: to the server %v", c.how, c.why, found)
		}
	}
}

// TestRoundsAreOperationsOfTheServer checks that a result that asks for another round is a request to the server,
// and that a request without one is not.
func TestRoundsAreOperationsOfTheServer(t *testing.T) {
	m := New("v", none, none)
	call(m, "2025-06-18", "", inputRequired, Fault{})
	m.Request(&Operation{Client: translate.Oldest(), Server: translate.Latest(), Method: wire.ToolsList, Outcome: Local, Began: time.Now()})
	server, client := family(t, m, "mcp_server_operation_duration_seconds", nil), family(t, m, "mcp_client_operation_duration_seconds", nil)
	if len(server) != 1 || server[0].labels["mcp_method_name"] != "tools/list" || len(client) != 1 || client[0].labels["mcp_method_name"] != "tools/call" {
		t.Errorf("%v\n%v", server, client)
	}
}

// TestExemplarsNeedASampledTrace checks that a bucket names a trace only if one is known, and that there are native
// buckets.
func TestExemplarsNeedASampledTrace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // the clock stands still: how long each call took is exact
		m := New("v", none, none)
		o := Operation{Client: translate.Oldest(), Server: translate.Latest(), Method: wire.ToolsCall, Outcome: Succeeded, Began: time.Now().Add(-time.Second)}
		exemplars := func() []string {
			h := family(t, m, "mcp_server_operation_duration_seconds", nil)[0]
			if !h.native {
				t.Errorf("no native buckets: %v", h)
			}
			return h.exemplars
		}
		m.Request(&o)
		if ids := exemplars(); ids != nil {
			t.Errorf("%v", ids)
		}
		o.Trace = "4bf92f3577b34da6a3ce929d0e0e4736"
		m.Request(&o)
		if ids := exemplars(); len(ids) != 1 || ids[0] != "trace_id="+o.Trace {
			t.Errorf("%v", ids)
		}
		first := o.Trace
		o.Trace = "00000000000000000000000000000001"
		m.Request(&o) // it is as long as the one before
		o.Trace = "00000000000000000000000000000002"
		o.Began = time.Now().Add(-40 * time.Second)
		m.Request(&o)
		if ids := exemplars(); len(ids) != 2 || ids[0] != "trace_id="+first || ids[1] != "trace_id="+o.Trace {
			t.Errorf("%v", ids)
		}
	})
}

func TestOtherEndsAreOtherLabels(t *testing.T) {
	m := New("v", none, none)
	for _, host := range []string{"a.example", "b.example", "b.example"} {
		m.Connect(Ends{Client: "tcp", Server: "tcp", Address: host})
		call(m, "2025-06-18", "", Succeeded, Fault{})
	}
	for host, want := range map[string]uint64{"a.example": 1, "b.example": 2} {
		if n := family(t, m, "mcp_client_operation_duration_seconds", map[string]string{"server_address": host})[0].count; n != want {
			t.Errorf("%s: %d", host, n)
		}
	}
}

func TestSessionsAreMeasured(t *testing.T) {
	m := New("v", none, none)
	m.Connect(Ends{Client: "tcp", Server: "pipe"})
	m.SessionEnded(Session{Client: translate.Oldest(), Began: time.Now().Add(-time.Minute)})
	m.SessionEnded(Session{Server: translate.Latest(), Began: time.Now(), Cause: failures.CommandExit})
	server := family(t, m, "mcp_server_session_duration_seconds", map[string]string{"error_type": "", "network_transport": "tcp", "mcp_protocol_version": translate.Oldest().Name})
	client := family(t, m, "mcp_client_session_duration_seconds", map[string]string{"error_type": "command_exit", "network_transport": "pipe", "mcp_protocol_version": translate.Latest().Name})
	if len(server) != 1 || server[0].value < 60 || len(client) != 1 {
		t.Errorf("%v\n%v", server, client)
	}
}

func TestCertificatesThatExpire(t *testing.T) {
	m := New("v", none, none)
	m.Registry.MustRegister(Expiries(func() map[string]time.Time {
		return map[string]time.Time{"listener": time.Now().Add(time.Hour), "client": {}}
	}))
	found := family(t, m, "dragoman_certificate_expiry_seconds", nil)
	if len(found) != 1 || found[0].labels["certificate"] != "listener" || found[0].value < 3590 || found[0].value > 3600 {
		t.Errorf("%v", found)
	}
}

// TestNumberOfSeries checks the number of series of a server with 50 tools, whose clients speak two revisions.
func TestNumberOfSeries(t *testing.T) {
	m := New("v", none, none)
	NewResults(m)
	m.Connect(Ends{Client: "tcp", Server: "tcp", Address: "mcp.example"})
	m.Tools.Learn(list(50))
	for _, client := range []string{"2024-11-05", "2025-06-18"} {
		for i := range 50 {
			call(m, client, fmt.Sprint("tool", i), Succeeded, Fault{})
		}
		for _, method := range []wire.Method{wire.ToolsList, wire.PromptsList} {
			m.Request(&Operation{Client: translate.Lookup(client), Server: translate.Latest(), Method: method, Outcome: Succeeded, Began: time.Now(), Waited: 1})
		}
		m.Handshake(translate.Lookup(client), translate.Latest(), Succeeded, "")
		m.SessionEnded(Session{Client: translate.Lookup(client), Server: translate.Latest(), Began: time.Now()})
	}
	n := series(t, m)
	t.Logf("%d series", n)
	if n > 3000 || n < 2000 {
		t.Errorf("%d series", n)
	}
}

// TestInventedNamesAddNoSeries calls 10,000 tools that no list names, with errors of as many codes.
func TestInventedNamesAddNoSeries(t *testing.T) {
	m := New("v", none, none)
	m.Tools.Learn(list(3))
	call(m, "2025-06-18", "tool0", Succeeded, Fault{})
	call(m, "2025-06-18", "x", Errored, Fault{Code: -32602})
	call(m, "2025-06-18", "x", Errored, Fault{Code: -1})
	before := series(t, m)
	for i := range 10_000 {
		call(m, "2025-06-18", fmt.Sprint("invented", i), Errored, Fault{Code: -32602})
		call(m, "2025-06-18", "x", Errored, Fault{Code: -100 - i})
	}
	if n := series(t, m); n != before {
		t.Errorf("%d series, before %d", n, before)
	}
	if n := family(t, m, "mcp_server_operation_duration_seconds", map[string]string{"gen_ai_tool_name": unknownTools, "error_type": "-32602"})[0].count; n != 10_001 {
		t.Errorf("%d calls", n)
	}
}

// TestLongListsAreBounded checks a server that lists 10,000 tools, all of which are called by clients of two revisions and
// fail in several ways.
func TestLongListsAreBounded(t *testing.T) {
	m := New("v", none, none)
	m.Tools.Learn(list(10_000))
	m.Tools.Learn([]byte(`{"tools":[{"name":"late"},{"name":""},{}]}`))
	for i := range 10_000 {
		call(m, "2025-06-18", fmt.Sprint("tool", i), Succeeded, Fault{})
	}
	if all := family(t, m, "mcp_server_operation_duration_seconds", nil); len(all) != maxToolLabels+1 {
		t.Errorf("%d label sets", len(all))
	}
	if n := family(t, m, "mcp_server_operation_duration_seconds", map[string]string{"gen_ai_tool_name": otherTools})[0].count; n != 10_000-maxToolLabels {
		t.Errorf("%d other calls", n)
	}
	for _, why := range failures.All() {
		for i := range maxToolLabels {
			call(m, "2024-11-05", fmt.Sprint("tool", i), Failed, Fault{Cause: why, Code: -32603})
		}
	}
	if all := family(t, m, "mcp_server_operation_duration_seconds", nil); len(all) > maxNamed+2*len(failures.All()) {
		t.Errorf("%d label sets", len(all))
	}
	if tool := m.Tools.Of([]byte(`"late"`)); tool != unknown {
		t.Errorf("%v", tool)
	}
}

func TestNamesOfTools(t *testing.T) {
	m := New("v", none, none)
	if got := m.Tools.Of([]byte(`"a"`)); got != unknown {
		t.Errorf("before any list: %v", got)
	}
	m.Tools.Learn([]byte(`{"tools":[{"name":"a"},{"name":"b \"c\""},{"name":"` + strings.Repeat("x", maxToolLabels+1) + `"}]}`))
	for name, want := range map[string]string{
		`"a"`: "a", `"\u0061"`: "a", `"b \"c\""`: `b "c"`, `"z"`: unknownTools, `7`: unknownTools, ``: unknownTools,
		`"` + strings.Repeat("x", maxToolLabels+1) + `"`: otherTools,
	} {
		if got := m.Tools.Of([]byte(name)).Label(); got != want {
			t.Errorf("%s: %s", name, got)
		}
	}
	if m.Tools.Listed("own").Label() != "own" || m.Tools.Of([]byte(`"own"`)).Label() != "own" {
		t.Error("a tool of dragoman's own has no label")
	}
	if (*Tool)(nil).Label() != "" {
		t.Error("no tool has a name")
	}
}

// common is the operation that is counted most: a call of a tool that succeeds.
func common() (*Metrics, func()) {
	m := New("v", none, none)
	m.Tools.Learn(list(50))
	name, client, server, began := []byte(`"tool7"`), translate.Oldest(), translate.Latest(), time.Now()
	return m, func() {
		m.Request(&Operation{
			Client: client, Server: server, Method: wire.ToolsCall, Tool: m.Tools.Of(name),
			Outcome: Succeeded, Began: began, Waited: time.Millisecond,
		})
	}
}

func BenchmarkRequest(b *testing.B) {
	_, count := common()
	b.ReportAllocs()
	for b.Loop() {
		count()
	}
}
