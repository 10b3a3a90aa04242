package session

import (
	"testing"

	"github.com/dragoman-proxy/dragoman/proxy/replicas/sealed"
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
