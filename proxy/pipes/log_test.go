package pipes

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"

	"github.com/dragoman-proxy/dragoman/adapterrt/secret"
	"github.com/dragoman-proxy/dragoman/proxy/pipes/failures"
)

// TestServersStderrIsRelayedAtARate: a burst is relayed as a whole up to a bound. The lines over it
// are counted, and logged once.
func TestServersStderrIsRelayedAtARate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		core, logs := observer.New(zap.InfoLevel)
		watched := 0
		count := func(string) { watched++ }
		watch := new(Watch)
		watch.Store(&count)
		l := NewLog(zap.New(core), secret.Known{}, watch)
		for range 2000 {
			l.Line([]byte("x"))
		}
		time.Sleep(1500 * time.Millisecond)
		for range 100 {
			l.Line([]byte("y"))
		}
		time.Sleep(2 * time.Second)
		relayed := logs.FilterMessage("upstream stderr").Len()
		told := logs.FilterMessageSnippet("lines dropped").All()
		if relayed != linesBurst+100 || len(told) != 1 || told[0].ContextMap()["count"] != int64(2000-linesBurst) {
			t.Errorf("%d relayed, told %v", relayed, told)
		}
		if watched != 2100 {
			t.Errorf("%d lines were watched", watched)
		}
	})
}

// TestLinesThatAreNoMessagesAreTold: the first one is a warning without secrets; further ones are shown at debug, and counted.
func TestLinesThatAreNoMessagesAreTold(t *testing.T) {
	for _, level := range []zapcore.Level{zap.InfoLevel, zap.DebugLevel} {
		synctest.Test(t, func(t *testing.T) {
			core, logs := observer.New(level)
			l := NewLog(zap.New(core), secret.Known{Configured: secret.NewSet("s3cr3t-value")}, new(Watch))
			l.Skipped([]byte("token s3cr3t-value \x1b[31m" + strings.Repeat("x", 5000)))
			for range 2000 {
				l.Skipped([]byte("> server start"))
			}
			time.Sleep(skippedEvery + time.Second)
			l.Skipped([]byte("late"))
			time.Sleep(skippedEvery + time.Second)

			all := logs.All()
			first := all[0]
			text := fmt.Sprint(first.ContextMap()["line"])
			if first.Level != zap.WarnLevel || strings.Contains(text, "s3cr3t") || strings.Contains(text, "\x1b") || len(text) > failures.MaxQuote+len("…") || !strings.Contains(text, "xxx") {
				t.Errorf("the first: %v %v", first.Entry, first.ContextMap())
			}
			var shown int
			var counts []any
			for _, e := range all[1:] {
				switch e.Level {
				case zap.DebugLevel:
					shown++
				case zap.InfoLevel:
					counts = append(counts, e.ContextMap()["count"])
				default:
					t.Errorf("a further one: %v", e.Entry)
				}
			}
			if want := map[zapcore.Level]int{zap.InfoLevel: 0, zap.DebugLevel: linesBurst + 1}[level]; shown != want {
				t.Errorf("%v: %d lines shown, want %d", level, shown, want)
			}
			if !slices.Equal(counts, []any{int64(2000), int64(1)}) {
				t.Errorf("%v: counted %v", level, counts)
			}
		})
	}
}
