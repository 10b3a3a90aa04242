package losses

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"

	"github.com/dragoman-proxy/dragoman/proxy/ops/metrics"
	"github.com/dragoman-proxy/dragoman/translate"
	"github.com/dragoman-proxy/dragoman/translate/wire"
)

// world is a Log with what it has written and counted.
type world struct {
	*Log
	t     *testing.T
	lines *observer.ObservedLogs
	known []string
	total *metrics.Metrics
}

func newWorld(t *testing.T, level zapcore.Level) *world {
	core, lines := observer.New(level)
	w := &world{t: t, lines: lines, total: metrics.New("test", func() float64 { return 0 }, func() float64 { return 0 })}
	w.Log = New(zap.New(core), w.total, func() (string, []string) { return "http://server/mcp", w.known })
	return w
}

// says compares what was written since the last time: level, message, and the rules with what they are about, and counts.
func (w *world) says(when string, want ...string) {
	w.t.Helper()
	var got []string
	for _, line := range w.lines.TakeAll() {
		text := line.Level.String() + " " + line.Message + ":"
		of, _ := line.ContextMap()["losses"].([]any)
		if of == nil {
			of, _ = line.ContextMap()["changes"].([]any)
		}
		for _, one := range of {
			m := one.(map[string]any)
			text += fmt.Sprint(" ", m["rule"], " ", m["what"], " ×", m["count"])
			if m["messages"] != nil {
				text += fmt.Sprint(" in ", m["messages"])
			}
		}
		got = append(got, text)
	}
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		w.t.Errorf("%s:\n got  %s\n want %s", when, strings.Join(got, "\n      "), strings.Join(want, "\n      "))
	}
}

// counted returns the sum of a metric.
func (w *world) counted(name string) (sum float64) {
	all, err := w.total.Registry.Gather()
	if err != nil {
		w.t.Fatal(err)
	}
	for _, f := range all {
		if f.GetName() == name {
			for _, m := range f.Metric {
				sum += m.GetCounter().GetValue()
			}
		}
	}
	return sum
}

func (w *world) note(client string, method wire.Method, list ...wire.Loss) {
	w.Note(Peers{translate.Latest(), translate.Oldest(), client}, method, list, nil)
}

var (
	title   = wire.Loss{Rule: "C01", What: "title", Level: wire.Warn, Count: 3, Lost: 3}
	moved   = wire.Loss{Rule: "C04", What: "structuredContent", Level: wire.Warn, Count: 1, Standin: true}
	icons   = wire.Loss{Rule: "C05", What: "icons", Level: wire.Warn, Count: 3, Lost: 2}
	empty   = wire.Loss{Rule: "C08", What: "_meta", Level: wire.Info, Count: 1}
	added   = wire.Loss{Rule: "C41", What: "name", Level: wire.Debug, Count: 1}
	assumed = wire.Loss{Rule: "C07", What: "execution", Level: wire.Assumed, Count: 5}
)

// TestAKindIsToldOnceForEachPairOfPeers: the first time, with the level that the loss has; what is added is for debugging.
func TestAKindIsToldOnceForEachPairOfPeers(t *testing.T) {
	w := newWorld(t, zap.InfoLevel)
	w.note("editor 1", wire.ToolsList, title, icons, added, assumed)
	w.says("first", "warn lost in translation: C01 title ×3 C05 icons ×2")
	w.note("editor 1", wire.ToolsList, title, icons, added)
	w.note("editor 1", wire.PromptsList, title)
	w.note("editor 2", wire.ToolsList, title)
	w.says("again, in another list, and after an update of the client")
	w.note("editor 1", wire.ToolsCall, moved, empty)
	w.says("another kind, of which nothing is lost", "warn changed in translation: C04 structuredContent ×1 C08 _meta ×1")
	w.note("other 1", wire.ToolsList, title)
	w.says("another client", "warn lost in translation: C01 title ×3")
	w.Note(Peers{translate.Latest(), translate.Handshake()[1], "editor 1"}, wire.ToolsList, []wire.Loss{title}, nil)
	w.says("another revision", "warn lost in translation: C01 title ×3")
}

// TestRepeatsAreSummedUpOnceAnHour, at info. A day in which nothing is new has no warning.
func TestRepeatsAreSummedUpOnceAnHour(t *testing.T) {
	w := newWorld(t, zap.InfoLevel)
	w.note("editor 1", wire.ToolsList, title, moved, added)
	w.lines.TakeAll()
	at := w.summed
	for hour := range 24 {
		for minute := range 59 {
			w.note("editor 1", wire.ToolsList, title, moved, added)
			w.Flush(at.Add(time.Duration(minute+1) * time.Minute))
		}
		w.says(fmt.Sprint("before hour ", hour))
		at = at.Add(time.Hour)
		w.Flush(at)
		w.says(fmt.Sprint("hour ", hour), "info lost in translation again: C01 title ×177 in 59", "info changed in translation again: C04 structuredContent ×59 in 59")
	}
	w.Flush(at.Add(2 * time.Hour))
	w.says("an hour without messages")
	w.note("editor 1", wire.ToolsList, title)
	w.says("after a pause")
	w.Close()
	w.says("the end", "info lost in translation again: C01 title ×3 in 1")
}

// TestKnownLossesAreForDebugging, but counted.
func TestKnownLossesAreForDebugging(t *testing.T) {
	w := newWorld(t, zap.InfoLevel)
	w.known = []string{"C01", "C04"}
	w.note("editor 1", wire.ToolsList, title, icons, moved)
	w.note("editor 1", wire.ToolsList, title, moved)
	w.says("known", "warn lost in translation: C05 icons ×2")
	w.Close()
	w.says("no repeats")
	w.known = nil // after a reload
	w.note("editor 1", wire.ToolsList, title)
	w.says("no longer known", "warn lost in translation: C01 title ×3")
	if n := w.counted("dragoman_losses_total"); n != 3+2+3+3 {
		t.Errorf("%v losses", n)
	}
	w = newWorld(t, zap.DebugLevel)
	w.known = []string{"C01"}
	w.note("editor 1", wire.ToolsList, title, added)
	w.says("debug", "debug lost in translation: C01 title ×3", "debug changed in translation: C41 name ×1")
}

// TestLossesAndChangesAreCountedApart.
func TestLossesAndChangesAreCountedApart(t *testing.T) {
	w := newWorld(t, zap.ErrorLevel)
	for range 2 {
		w.note("editor 1", wire.ToolsList, title, moved, icons, empty, added, assumed)
	}
	if lost, changed := w.counted("dragoman_losses_total"), w.counted("dragoman_changes_total"); lost != 2*(3+2) || changed != 2*(1+1+1+1) {
		t.Errorf("%v lost, %v changed", lost, changed)
	}
	w.says("at level error")
	w.Close()
	w.says("at level error")
}

// TestTheLineSaysWhatAStrangerNeeds: which peers, which messages, what the rule does, and in the first line what to do.
func TestTheLineSaysWhatAStrangerNeeds(t *testing.T) {
	w := newWorld(t, zap.DebugLevel)
	w.note("editor 1", wire.ToolsList, wire.Loss{Rule: "C05", What: "icons", Level: wire.Warn, Count: 1, Lost: 1})
	w.note("editor 1", wire.ToolsList, title)
	w.Note(Peers{translate.Oldest(), translate.Latest(), "editor 1"}, wire.ResourcesRead, []wire.Loss{added}, nil)
	lines := w.lines.TakeAll()
	if len(lines) != 3 {
		t.Fatalf("%d lines", len(lines))
	}
	first := lines[0].ContextMap()
	for key, want := range map[string]any{"from": "2025-11-25", "to": "2024-11-05", "client": "editor 1", "server": "http://server/mcp", "advice": advice} {
		if first[key] != want {
			t.Errorf("%s is %v, want %v", key, first[key], want)
		}
	}
	if of := first["losses"].([]any)[0].(map[string]any); of["method"] != "tools/list" || of["does"] != "removes a member that the receiver's revision does not have" {
		t.Errorf("%v", of)
	}
	if second := lines[1].ContextMap(); second["advice"] != nil {
		t.Errorf("%v", second)
	}
	of := lines[2].ContextMap()["changes"].([]any)[0].(map[string]any)
	if does := of["does"].(string); !strings.HasPrefix(does, "adds `name`, the last part of the URI") || strings.Contains(does, "removes") {
		t.Errorf("%s", does)
	}
}

// TestMemoryForToldKindsIsBounded, whatever clients call themselves: what comes later is told once for all of them.
func TestMemoryForToldKindsIsBounded(t *testing.T) {
	w := newWorld(t, zap.InfoLevel)
	for i := range maxTold + 100 {
		w.note(fmt.Sprint("client", i), wire.ToolsList, title)
	}
	if n := w.lines.Len(); n != maxTold+1 || len(w.told) != maxTold+1 {
		t.Errorf("%d lines, %d kinds kept", n, len(w.told))
	}
	w.lines.TakeAll()
	w.note("client5 1", wire.ToolsList, title)
	w.note("one more", wire.ToolsList, title)
	w.says("when it is full")
	w.note("one more", wire.ToolsList, icons)
	w.note("and another", wire.ToolsList, icons)
	w.says("another kind", "warn lost in translation: C05 icons ×2")
	if len(w.repeats) > 2 {
		t.Errorf("%d kinds of repeats", len(w.repeats))
	}
	if got := NameOf(`{"name":"` + strings.Repeat("n", 5000) + `","version":"1"}`); len(got) > 120 {
		t.Errorf("a name of %d bytes", len(got))
	}
}

// TestLinesHaveAFormAsText checks what a log line as text has of a list.
func TestLinesHaveAFormAsText(t *testing.T) {
	w := newWorld(t, zap.WarnLevel)
	w.note("c", wire.ToolsList, icons, title)
	for _, line := range w.lines.TakeAll() {
		for _, f := range line.Context {
			if text, ok := f.Interface.(fmt.Stringer); ok && f.Key == "losses" && text.String() == "C01 title ×3, C05 icons ×2" {
				return
			}
		}
	}
	t.Error("no such line")
}
