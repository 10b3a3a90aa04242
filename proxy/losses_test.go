package proxy

import (
	"strings"
	"testing"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/dragoman-proxy/dragoman/translate"
	"github.com/dragoman-proxy/dragoman/translate/wire"
)

func TestLossesAreSummedUp(t *testing.T) {
	from, to := translate.Latest(), translate.Oldest()
	title := []wire.Loss{{Rule: "C01", What: "title", Level: wire.Warn, Count: 3}}
	empty := []wire.Loss{{Rule: "C05", What: "icons", Level: wire.Info, Count: 1}}
	for _, every := range []bool{false, true} {
		core, logs := observer.New(zap.DebugLevel)
		m := newMetrics(func() float64 { return 0 }, func() float64 { return 0 })
		l := newLossLog(zap.New(core), m.losses, every)
		for range 3 {
			l.note(from, to, wire.ToolsList, title, nil)
		}
		l.note(from, to, wire.PromptsList, title, nil)
		l.note(from, to, wire.ToolsList, empty, nil)
		l.note(from, to, wire.ToolsList, nil, nil)

		if n := counted(t, m, "dragoman_losses_total", "from="+from.Name, "to="+to.Name, "rule=C01", "level=warn"); n != 12 {
			t.Errorf("counted %v", n)
		}
		at := logs.TakeAll()
		want := 3
		if every {
			want = 5
		}
		if len(at) != want || at[0].Level != zap.WarnLevel || at[len(at)-1].Level != zap.InfoLevel {
			t.Errorf("every %t: %d lines: %+v", every, len(at), at)
		}
		fields := at[0].ContextMap()
		for _, key := range []string{"from", "to", "method", "rule", "path", "count"} {
			if _, ok := fields[key]; !ok {
				t.Errorf("%s is missing in %v", key, fields)
			}
		}
		l.flush()
		l.flush()
		at = logs.TakeAll()
		if every {
			if len(at) != 0 {
				t.Errorf("%+v", at)
			}
			continue
		}
		if len(at) != 1 {
			t.Fatalf("%d lines in the summary: %+v", len(at), at)
		}
		if f := at[0].ContextMap(); f["messages"] != int64(2) || f["count"] != int64(6) || f["method"] != "tools/list" {
			t.Errorf("%v", f)
		}
	}
}

func TestLossesOfRealMessagesAreCounted(t *testing.T) {
	f := newFake(initializing("2025-11-25", func(string) ([]string, error) {
		return one(`{"jsonrpc":"2.0","id":1,"result":{"tools":[{"name":"t","title":"T","inputSchema":{"type":"object"}}]}}`)
	}))
	srv := front(t, f)
	r := srv.post(srv.initialize("2024-11-05"), listOne)
	sameJSON(t, r.body, `{"jsonrpc":"2.0","id":1,"result":{"tools":[{"name":"t","inputSchema":{"type":"object"}}]}}`)
	if n := counted(t, srv.metrics, "dragoman_losses_total", "from=2025-11-25", "to=2024-11-05", "rule=C01", "level=warn"); n != 1 {
		t.Errorf("counted %v", n)
	}
	at := srv.logs.FilterMessage("lost in translation").FilterField(zap.String("rule", "C01")).All()
	if len(at) != 1 || !strings.Contains(at[0].ContextMap()["path"].(string), "title") {
		t.Errorf("%+v", at)
	}
}
