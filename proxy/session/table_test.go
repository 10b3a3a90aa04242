package session

import (
	"testing"
	"time"

	"github.com/dragoman-proxy/dragoman/proxy/replicas/sealed"
	"github.com/dragoman-proxy/dragoman/proxy/store/ended"
)

// TestPipesOfTwoServers: clients on pipes of two servers in one program are two clients, although both are the first of their server.
func TestPipesOfTwoServers(t *testing.T) {
	first := func(of *Table) string { return (&Session{Table: of, Pipe: 1}).Who() }
	one, other := NewTable(1, &sealed.Sealer{}, nil), NewTable(1, &sealed.Sealer{}, nil)
	if first(one) != first(one) {
		t.Error("a client is not the one that it was")
	}
	if first(one) == first(other) {
		t.Errorf("both are %s", first(one))
	}
}

// TestASessionThatEndsHereIsNotTakenForOneThatEndedElsewhere: its connection would stay open, since the other replica has closed its own.
func TestASessionThatEndsHereIsNotTakenForOneThatEndedElsewhere(t *testing.T) {
	table := NewTable(1, &sealed.Sealer{}, nil)
	s := &Session{ID: "s"}
	table.byID[s.ID] = s
	elsewhere := make(chan []*Session, 1)
	mark := table.end
	table.end = func(of ended.Serial, made time.Time) {
		mark(of, made)
		go func() { elsewhere <- table.dropEnded() }()
		select { // time for it, if nothing holds it
		case all := <-elsewhere:
			elsewhere <- all
		case <-time.After(20 * time.Millisecond):
		}
	}
	table.DropForGood(s)
	if all := <-elsewhere; len(all) > 0 || len(table.byID) > 0 {
		t.Errorf("%d were taken, %d are left", len(all), len(table.byID))
	}
}
