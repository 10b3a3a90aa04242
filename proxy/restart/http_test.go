package restart

import (
	"context"
	"testing"
	"time"
)

func TestRenewingEndsWithTheContextOfItsClient(t *testing.T) {
	c := &HTTP{renewing: &renewal{done: make(chan struct{})}}
	ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	if err := c.Renew(ctx, 0, nil); err == nil {
		t.Error("no error")
	}
}
