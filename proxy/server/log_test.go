package server

import (
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"
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
		l := NewLog(zap.New(core), nil, watch)
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
