package cost

import (
	"errors"
	"testing"
	"time"
)

// TestACallThatWaitsIsMeasuredFromWhenItWasDue: with one connection that takes 5 ms for each call and a rate of 1,000, the last
// call of a run of 50 ms begins about 200 ms late, and 100 ms would be missed; a closed loop would report 5 ms for each.
func TestACallThatWaitsIsMeasuredFromWhenItWasDue(t *testing.T) {
	r, err := openLoop(t.Context(), 1000, 50*time.Millisecond, []func() error{func() error { time.Sleep(5 * time.Millisecond); return nil }})
	if err != nil {
		t.Fatal(err)
	}
	if r.made+r.missed != 50 || r.latency.Total() != 50 {
		t.Errorf("%d made, %d missed, %d measured, want 50 in all", r.made, r.missed, r.latency.Total())
	}
	if r.missed == 0 || r.kept() {
		t.Errorf("%d missed: the rate cannot have been kept", r.missed)
	}
	if least := (20 * time.Millisecond).Nanoseconds(); r.latency.Quantile(0.9) < least {
		t.Errorf("90%% within %d ns: the time that calls waited for their turn is not measured", r.latency.Quantile(0.9))
	}
}

func TestAllCallsAreMade(t *testing.T) {
	made := make([]int, 4)
	var calls []func() error
	for i := range made {
		calls = append(calls, func() error { made[i]++; return nil })
	}
	r, err := openLoop(t.Context(), 2000, 20*time.Millisecond, calls)
	if err != nil {
		t.Fatal(err)
	}
	if sum := made[0] + made[1] + made[2] + made[3]; sum != r.made || r.made+r.missed != 40 {
		t.Errorf("%d calls, %d made and %d missed, want 40", sum, r.made, r.missed)
	}
}

func TestAFailedCallEndsTheRun(t *testing.T) {
	failed := errors.New("failed")
	if _, err := openLoop(t.Context(), 1000, time.Minute, []func() error{func() error { return failed }}); !errors.Is(err, failed) {
		t.Error(err)
	}
	if _, err := openLoop(t.Context(), 0, time.Second, nil); err == nil {
		t.Error("a run without a rate")
	}
}
