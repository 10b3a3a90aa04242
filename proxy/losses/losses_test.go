package losses

import (
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
	fields := at[0].ContextMap()
	for _, key := range []string{"from", "to", "method", "rule", "path", "count"} {
		if _, ok := fields[key]; !ok {
			t.Errorf("%s is missing in %v", key, fields)
		}
	}
	l.Flush()
	l.Flush()
	at = logs.TakeAll()
	if len(at) != 1 {
		t.Fatalf("%d lines in the summary: %+v", len(at), at)
	}
	if f := at[0].ContextMap(); f["messages"] != int64(2) || f["count"] != int64(6) || f["method"] != "tools/list" {
		t.Errorf("%v", f)
	}
}
