package trace

import (
	"regexp"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dragoman-proxy/dragoman/proxy/protocol/mcp"
)

// TestFieldsContainOnlyTheTrace checks also that each field is no longer than MaxLogged.
func TestFieldsContainOnlyTheTrace(t *testing.T) {
	fields := Fields([]mcp.Header{
		{Name: "Authorization", Value: "secret"}, {Name: "traceparent", Value: "00-a-b-01"}, {Name: "baggage", Value: strings.Repeat("x", 2*MaxLogged)},
	})
	if len(fields) != 2 || fields[0].Key != "traceparent" || fields[0].String != "00-a-b-01" || len(fields[1].String) != MaxLogged {
		t.Errorf("%v", fields)
	}
}

// TestStopwatch checks that each lap counts for one part, and a pause for none.
func TestStopwatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var w Stopwatch
		w.Start()
		began := w.Began()
		time.Sleep(time.Millisecond)
		w.Lap(&w.Parse)
		time.Sleep(2 * time.Millisecond)
		w.Lap(&w.Upstream)
		time.Sleep(time.Hour)
		w.Start()
		time.Sleep(4 * time.Millisecond)
		w.Lap(&w.Upstream)
		if w.Parse != time.Millisecond || w.Upstream != 6*time.Millisecond || w.Translate != 0 || w.Began() != began {
			t.Errorf("%+v", w)
		}
		if got := w.Waited(); got != time.Hour+6*time.Millisecond {
			t.Errorf("waited %v", got)
		}
		if got := w.Now(); !got.Equal(time.Now()) {
			t.Errorf("the time is %v", got)
		}
	})
}

func TestServerTimingIsSentOnRequest(t *testing.T) {
	w := Stopwatch{Parse: 1500 * time.Microsecond}
	if h := w.AppendTo(nil); h != nil {
		t.Errorf("%v", h)
	}
	w.Asked = true
	if h := w.AppendTo(nil); len(h) != 1 || h[0].Name != "Server-Timing" || !regexp.MustCompile(`^parse;dur=1\.500, translate;dur=0\.000, upstream;dur=0\.000$`).MatchString(h[0].Value) {
		t.Errorf("%v", h)
	}
}
