package session

import (
	"slices"
	"testing"

	"github.com/dragoman-proxy/dragoman/proxy/ops/host"
	"github.com/dragoman-proxy/dragoman/translate/wire"
)

// TestDroppedRequestsHaveTheClientsIDs: a client is told that a question is over by the id that it got.
func TestDroppedRequestsHaveTheClientsIDs(t *testing.T) {
	s := &Session{Table: &Table{Host: new(host.Host)}, Asked: NewCalls(9)}
	plain, renamed := NewCall([]byte("1"), wire.RootsList), NewCall([]byte("2"), wire.ElicitationCreate)
	renamed.As = []byte(`"sealed"`)
	for _, c := range []*Call{plain, renamed} {
		if err := s.Asked.Add(c); err != nil {
			t.Fatal(err)
		}
	}
	got := s.DropRequests()
	slices.Sort(got)
	if !slices.Equal(got, []string{`"sealed"`, "1"}) || !s.Asked.None() {
		t.Errorf("%q", got)
	}
}
