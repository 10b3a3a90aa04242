package losses

import (
	"fmt"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/dragoman-proxy/dragoman/translate"
	"github.com/dragoman-proxy/dragoman/translate/wire"
)

func TestLossesAreSummedUp(t *testing.T) {
	from, to := translate.Latest(), translate.Oldest()
	title := []wire.Loss{{Rule: "C01", What: "title", Level: wire.Warn, Count: 3}}
	empty := []wire.Loss{{Rule: "C05", What: "icons", Level: wire.Info, Count: 1}}
	core, logs := observer.New(zap.DebugLevel)
	counter := prometheus.NewCounterVec(prometheus.CounterOpts{Name: "losses"}, []string{"from", "to", "rule", "level"})
	l := New(zap.New(core), counter)
	for range 3 {
		l.Note(from, to, wire.ToolsList, title, nil)
	}
	l.Note(from, to, wire.PromptsList, title, nil)
	l.Note(from, to, wire.ToolsList, empty, nil)
	l.Note(from, to, wire.ToolsList, nil, nil)

	registry := prometheus.NewRegistry()
	registry.MustRegister(counter)
	counted, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	if n := counted[0].Metric[1].GetCounter().GetValue(); n != 12 { // of what is a warning, behind what is none
		t.Errorf("counted %v", n)
	}
	at := logs.TakeAll()
	if len(at) != 3 || at[0].Level != zap.WarnLevel || at[len(at)-1].Level != zap.InfoLevel {
		t.Errorf("%d lines: %+v", len(at), at)
	}
	for i, line := range at {
		if _, advised := line.ContextMap()["advice"]; advised != (i == 0) {
			t.Errorf("line %d: advice is there: %v", i, advised)
		}
	}
	fields := at[0].ContextMap()
	if fields["from"] != from.Name || fields["to"] != to.Name {
		t.Errorf("%v", fields)
	}
	first := lossesIn(at[0])[0]
	for _, key := range []string{"method", "rule", "path", "count"} {
		if _, ok := first[key]; !ok {
			t.Errorf("%s is missing in %v", key, first)
		}
	}
	l.Flush()
	l.Flush()
	at = logs.TakeAll()
	if len(at) != 1 {
		t.Fatalf("%d lines in the summary: %+v", len(at), at)
	}
	if f := lossesIn(at[0]); len(f) != 1 || f[0]["messages"] != 2 || f[0]["count"] != 6 || f[0]["method"] != "tools/list" {
		t.Errorf("%v", f)
	}
}

// lossesIn returns the losses that a line is about.
func lossesIn(line observer.LoggedEntry) (all []map[string]any) {
	for _, one := range line.ContextMap()["losses"].([]any) {
		all = append(all, one.(map[string]any))
	}
	return all
}

// TestOneLineForAMessage: all that is lost of one message for the first time is in one line, whose level is the highest of
// them, and the repeats of all messages between two revisions are in another one. The counters have each loss.
func TestOneLineForAMessage(t *testing.T) {
	from, to := translate.Latest(), translate.Oldest()
	greeting := []wire.Loss{{Rule: "C15", What: "completions", Level: wire.Info, Count: 1}, {Rule: "C01", What: "title", Level: wire.Warn, Count: 1}}
	list := []wire.Loss{{Rule: "C07", What: "execution", Level: wire.Warn, Count: 13}, {Rule: "C07", What: "task-only tool", Level: wire.Warn, Count: 1}}
	core, logs := observer.New(zap.InfoLevel)
	counter := prometheus.NewCounterVec(prometheus.CounterOpts{Name: "losses"}, []string{"from", "to", "rule", "level"})
	l := New(zap.New(core), counter)
	for range 3 {
		l.Note(from, to, wire.Initialize, greeting, nil)
		l.Note(from, to, wire.ToolsList, list, nil)
		l.Note(from, to, wire.PromptsList, []wire.Loss{{Rule: "C27", Level: wire.Debug, Count: 1}}, nil)
	}
	at := logs.TakeAll()
	if len(at) != 2 || at[0].Level != zap.WarnLevel || len(lossesIn(at[0])) != 2 || len(lossesIn(at[1])) != 2 {
		t.Errorf("%d lines: %+v", len(at), at)
	}
	l.Flush()
	at = logs.TakeAll()
	if len(at) != 1 {
		t.Fatalf("%d lines about the repeats: %+v", len(at), at)
	}
	said := ""
	for _, loss := range lossesIn(at[0]) {
		said += fmt.Sprintln(loss["method"], loss["rule"], loss["count"], loss["messages"])
	}
	if want := "initialize C01 2 2\ninitialize C15 2 2\ntools/list C07 26 2\ntools/list C07 2 2\n"; said != want {
		t.Errorf("said\n%swant\n%s", said, want)
	}
	l.Flush() // nothing came again
	l.Note(from, to, wire.ToolsList, list, nil)
	if at = logs.TakeAll(); len(at) != 1 {
		t.Errorf("%d lines about what comes after a pause: %+v", len(at), at)
	}
	registry := prometheus.NewRegistry()
	registry.MustRegister(counter)
	counted, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	all := 0.0
	for _, m := range counted[0].Metric {
		all += m.GetCounter().GetValue()
	}
	if all != 3*(2+14+1)+14 {
		t.Errorf("%v losses were counted", all)
	}
}
