package guard

import (
	"fmt"
	"testing"
	"time"

	"github.com/dragoman-proxy/dragoman/adapterrt/failure"
)

func TestTheOldestTokensAreRemoved(t *testing.T) {
	var s Confirmations
	now := time.Unix(1_000_000_000, 0)
	first, _ := s.issue(&confirmation{expires: now.Add(time.Hour)})
	for i := range maxConfirmations {
		s.issue(&confirmation{session: fmt.Sprint(i)})
	}
	if f := s.redeem(first, [32]byte{}, now); f == nil || f.Code != failure.TokenInvalid || len(s.byToken) != maxConfirmations {
		t.Error(f, len(s.byToken))
	}
}
