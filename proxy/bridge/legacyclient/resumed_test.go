package legacyclient

import (
	"bytes"
	"testing"
	"time"

	"go.uber.org/zap"

	"github.com/dragoman-proxy/dragoman/proxy/config"
	"github.com/dragoman-proxy/dragoman/proxy/ended"
	"github.com/dragoman-proxy/dragoman/proxy/host"
	"github.com/dragoman-proxy/dragoman/proxy/metrics"
	"github.com/dragoman-proxy/dragoman/proxy/peertest"
	"github.com/dragoman-proxy/dragoman/proxy/sealed"
	"github.com/dragoman-proxy/dragoman/proxy/store"
	"github.com/dragoman-proxy/dragoman/translate"
)

// TestUnusedResumptionTakesNoNews: two requests may resume one session at the same time. The Conn of the slower one is not
// used: what other replicas change must reach the other Conn, and nothing may keep this one.
func TestUnusedResumptionTakesNoNews(t *testing.T) {
	cfg := config.Default()
	table, err := translate.NewTable(config.Default().Contract)
	if err != nil {
		t.Fatal(err)
	}
	none := func() float64 { return 0 }
	h := host.New(zap.NewNop(), metrics.New("v0", none, none), nil, "v0", func() host.Setup { return host.Setup{Config: &cfg, Table: table} })
	shared, err := store.New(store.NewMemory(store.Bounds{}), store.Options{Keys: [][]byte{bytes.Repeat([]byte{1}, 32)}})
	if err != nil {
		t.Fatal(err)
	}
	defer shared.Close()
	b := New(h, nil, nil)
	b.Share(shared)
	defer b.Close()
	session := sealed.Session{
		Made: time.Now(), Serial: ended.Serial{Process: 1, Number: 2},
		ClientRevision: translate.Oldest(), ServerRevision: translate.Lookup(translate.Modern()),
	}
	used := b.Resume(session, nil)
	used.Resumed(&session)
	_ = b.Resume(session, nil)
	if got := b.sharing.conns[session.Serial]; got != used {
		t.Error("another Conn than the one in use receives the changes of other replicas")
	}
	if !used.shared.stale.Load() {
		t.Error("the state that the other process has stored is not read")
	}
	used.End()
	peertest.Eventually(t, "a session that has ended is let go", func() bool {
		b.sharing.mu.Lock()
		defer b.sharing.mu.Unlock()
		return len(b.sharing.conns) == 0
	})
}
