package upstream

import (
	"context"
	"errors"
	"os"
	"testing"
	"time"
)

// almostOver is a context whose deadline has passed, and which has not ended yet.
type almostOver struct{ context.Context }

func (almostOver) Deadline() (time.Time, bool) { return time.Now(), true }

// TestConnectionThatIsNotMadeInTime: the error names the limit of the dialer only if that is the limit that has passed.
func TestConnectionThatIsNotMadeInTime(t *testing.T) {
	d := &dialer{addr: "server:80", timeout: time.Minute}
	if err := d.failure(almostOver{t.Context()}, "connect", os.ErrDeadlineExceeded); err != context.DeadlineExceeded {
		t.Errorf("the caller's limit has passed: %v", err)
	}
	long, cancel := context.WithTimeout(t.Context(), time.Hour)
	defer cancel()
	for _, ctx := range []context.Context{t.Context(), long} {
		if _, ok := errors.AsType[*silence](d.failure(ctx, "connect", os.ErrDeadlineExceeded)); !ok {
			t.Error("the dialer's limit has passed, and the error does not say so")
		}
	}
}
