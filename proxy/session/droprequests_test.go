package session

import (
	"bytes"
	"slices"
	"testing"
	"time"

	"github.com/dragoman-proxy/dragoman/proxy/config"
	"github.com/dragoman-proxy/dragoman/proxy/ops/host"
	"github.com/dragoman-proxy/dragoman/proxy/replicas/sealed"
	"github.com/dragoman-proxy/dragoman/proxy/session/setup"
	"github.com/dragoman-proxy/dragoman/translate/wire"
)

// TestDroppedRequestsHaveTheClientsIDs: a client is told that a question is over by the id that it got, which is sealed until then: a question of
// the next session may have it, too.
func TestDroppedRequestsHaveTheClientsIDs(t *testing.T) {
	by, err := sealed.New([][]byte{bytes.Repeat([]byte{1}, sealed.KeyBytes)}, config.Upstream{URL: "u"}, time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	now := new(setup.Current)
	now.Replace(&setup.Setup{Sealer: by})
	s := &Session{Table: &Table{Host: new(host.Host), Setup: now}, Asked: NewCalls(9)}
	plain, renamed := NewCall([]byte("1"), wire.RootsList), NewCall([]byte("2"), wire.ElicitationCreate)
	renamed.As = []byte(`"dragoman:other"`)
	for _, c := range []*Call{plain, renamed} {
		if err := s.Asked.Add(c); err != nil {
			t.Fatal(err)
		}
	}
	var got []string
	for _, box := range s.DropRequests() {
		id, _, ok := by.OpenQuestion(box)
		if !ok {
			t.Fatalf("%s is not sealed", box)
		}
		got = append(got, string(id))
	}
	slices.Sort(got)
	if !slices.Equal(got, []string{`"dragoman:other"`, "1"}) || !s.Asked.None() {
		t.Errorf("%q", got)
	}
}
