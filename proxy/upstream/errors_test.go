package upstream

import (
	"errors"
	"fmt"
	"testing"
)

func TestNeverSent(t *testing.T) {
	for op, want := range map[string]bool{"connect": true, "tls": true, "tls of the proxy": true, "start": true, "write": false, "read": false} {
		if err := fmt.Errorf("call: %w", &Error{Op: op, Err: errors.New("x")}); NeverSent(err) != want {
			t.Errorf("%s: %v", op, !want)
		}
	}
	if NeverSent(errors.New("x")) || NeverSent(nil) {
		t.Error("other errors")
	}
}
