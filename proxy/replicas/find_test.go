package replicas

import (
	"context"
	"net"
	"net/netip"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/dragoman-proxy/dragoman/proxy/config"
	"github.com/dragoman-proxy/dragoman/proxy/replicas/sealed"
)

// at returns Replicas that are configured with these addresses, which a test may change.
func at(t *testing.T, addresses ...string) (r *Replicas, now *Settings, logs *observer.ObservedLogs) {
	t.Helper()
	core, logs := observer.New(zap.DebugLevel)
	now = &Settings{Addresses: addresses, MaxMessage: 1 << 20}
	r = New(Options{Settings: func() Settings { return *now }, Log: zap.New(core)})
	t.Cleanup(r.Close)
	return r, now, logs
}

// TestHostNamesAreLookedUpOnceInAWhile checks that names are not looked up each time, and that the
// number of addresses is bounded.
func TestHostNamesAreLookedUpOnceInAWhile(t *testing.T) {
	r, _, logs := at(t, "replicas.example:8808", "10.0.0.1:9", "gone.example:1")
	asked := map[string]int{}
	r.lookup = func(_ context.Context, host string) ([]netip.Addr, error) {
		asked[host]++
		if host == "gone.example" {
			return nil, &net.DNSError{Err: "no such host", Name: host}
		}
		var all []netip.Addr
		for n := range 200 {
			all = append(all, netip.AddrFrom4([4]byte{10, 1, 0, byte(n)}))
		}
		return append(all, all[0]), nil
	}
	for range 3 {
		got := r.addresses(context.Background())
		if len(got) != config.MaxPeers || got[1] != (address{"10.1.0.1:8808", "replicas.example"}) {
			t.Fatalf("%d: %+v", len(got), got)
		}
	}
	r.at = time.Time{}
	r.addresses(context.Background())
	if n := logs.FilterMessage("cannot resolve the addresses of replicas").Len(); n != 1 {
		t.Errorf("%d lines in the log", n)
	}
	if asked["replicas.example"] != 2 || asked["10.0.0.1"] != 0 {
		t.Errorf("%v", asked)
	}
}

// TestLinksEndWithTheirAddresses checks that a link in use is closed only after its last
// use.
func TestLinksEndWithTheirAddresses(t *testing.T) {
	r, now, _ := at(t, "127.0.0.1:2")
	known := r.addresses(context.Background())[0]
	l, err := r.link(known)
	if err != nil {
		t.Fatal(err)
	}
	now.Addresses = []string{"127.0.0.1:1"}
	r.addresses(context.Background())
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
	r, _, _ := at(t, "127.0.0.1:2")
	known := r.addresses(context.Background())[0]
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
	r, _, _ := at(t, "127.0.0.1:2")
	known := r.addresses(context.Background())[0]
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
	r, _, _ := at(t)
	for n := range 3 * maxPlaces {
		r.lose(sealed.ID{byte(n), byte(n >> 8)})
	}
	if n := len(r.places); n > maxPlaces {
		t.Errorf("%d", n)
	}
}

// TestEachSealIsAcceptedOnce checks this for the time in which a seal is valid.
func TestEachSealIsAcceptedOnce(t *testing.T) {
	r, _, _ := at(t)
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
	r, now, _ := at(t, "127.0.0.1:1", "127.0.0.1:2")
	known := r.addresses(context.Background())
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
	now.Addresses = []string{"127.0.0.1:1"}
	r.addresses(context.Background())
	r.tried(known[1], true, 1)
	r.tried(known[0], true, 0)
	if list = r.List(); len(list) != 1 || len(r.states) != 1 {
		t.Errorf("%+v, %v", list, r.states)
	}
}
