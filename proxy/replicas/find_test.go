package replicas

import (
	"testing"
	"time"

	"go.uber.org/zap"

	"github.com/dragoman-proxy/dragoman/proxy/replicas/sealed"
)

// at returns Replicas to which the store has told these addresses.
func at(t *testing.T, addresses ...string) *Replicas {
	t.Helper()
	r := New(Options{Settings: func() Settings { return Settings{MaxMessage: 1 << 20} }, Log: zap.NewNop()})
	t.Cleanup(r.Close)
	r.told(addresses...)
	return r
}

// told makes these all addresses that are known.
func (r *Replicas) told(addresses ...string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.stored = registry{places: map[address]struct{}{}}
	for _, a := range addresses {
		r.stored.places[addressOf(a)] = struct{}{}
	}
	r.closeUnknown()
}

// TestLinksEndWithTheirAddresses checks that a link in use is closed only after its last
// use.
func TestLinksEndWithTheirAddresses(t *testing.T) {
	r, known := at(t, "127.0.0.1:2"), addressOf("127.0.0.1:2")
	l, err := r.link(known)
	if err != nil {
		t.Fatal(err)
	}
	r.told("127.0.0.1:1")
	if len(r.links) != 1 || r.links[known] != l {
		t.Errorf("in use: %v", r.links)
	}
	r.unlink(known, l)
	if len(r.links) != 0 {
		t.Errorf("afterwards: %v", r.links)
	}
}

// TestLinksEndWithTheirUseAfterTheEnd checks that after Close a link is closed after its
// use, although its address is known.
func TestLinksEndWithTheirUseAfterTheEnd(t *testing.T) {
	r, known := at(t, "127.0.0.1:2"), addressOf("127.0.0.1:2")
	before, err := r.link(known)
	if err != nil {
		t.Fatal(err)
	}
	r.Close()
	after, err := r.link(known)
	if err != nil {
		t.Fatal(err)
	}
	r.unlink(known, before)
	if r.links[known] != after {
		t.Error("the link of another replica is gone")
	}
	r.unlink(known, after)
	if len(r.links) != 0 {
		t.Errorf("afterwards: %v", r.links)
	}
}

// TestLinksThatAreForgottenEndWithTheirUse checks also that the next use makes another
// link.
func TestLinksThatAreForgottenEndWithTheirUse(t *testing.T) {
	r, known := at(t, "127.0.0.1:2"), addressOf("127.0.0.1:2")
	before, err := r.link(known)
	if err != nil {
		t.Fatal(err)
	}
	r.lose(sealed.ID{1})
	r.Forget()
	after, err := r.link(known)
	if err != nil || after == before || len(r.places) != 0 {
		t.Errorf("%v, %v", err, r.places)
	}
	r.unlink(known, before)
	if r.links[known] != after {
		t.Error("the link of another replica is gone")
	}
}

func TestPlacesAreBounded(t *testing.T) {
	r := at(t)
	for n := range 3 * maxPlaces {
		r.lose(sealed.ID{byte(n), byte(n >> 8)})
	}
	if n := len(r.places); n > maxPlaces {
		t.Errorf("%d", n)
	}
}

// TestEachSealIsAcceptedOnce checks this for the time in which a seal is valid.
func TestEachSealIsAcceptedOnce(t *testing.T) {
	r := at(t)
	if !r.inbox.once("a") || r.inbox.once("a") || !r.inbox.once("b") {
		t.Error("a seal is taken twice, or not at all")
	}
	r.inbox.since = time.Now().Add(-2*sealed.ForwardWindow - time.Second)
	if !r.inbox.once("c") || r.inbox.once("a") {
		t.Error("it is forgotten while it may be good")
	}
}

// TestListSaysOnlyWhatWasSeen of each known address: nothing before the first attempt to reach it.
func TestListSaysOnlyWhatWasSeen(t *testing.T) {
	r := at(t, "127.0.0.1:1", "127.0.0.1:2")
	known := []address{addressOf("127.0.0.1:1"), addressOf("127.0.0.1:2")}
	r.tried(known[1], true, 1)
	r.tried(known[1], true, 2)
	list := r.List()
	if len(list) != 2 || list[0].Reachable != nil || list[0].Forwarded != 0 || list[1].Address != "127.0.0.1:2" || !*list[1].Reachable || list[1].Forwarded != 3 {
		t.Errorf("%+v", list)
	}
	r.tried(known[1], false, 0)
	if list = r.List(); *list[1].Reachable || list[1].Forwarded != 3 {
		t.Errorf("%+v", list)
	}
	r.told("127.0.0.1:1")
	r.tried(known[1], true, 1)
	r.tried(known[0], true, 0)
	if list = r.List(); len(list) != 1 || len(r.states) != 1 {
		t.Errorf("%+v, %v", list, r.states)
	}
}
