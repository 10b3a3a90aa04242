package legacyclient

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/dragoman-proxy/dragoman/proxy/config"
	"github.com/dragoman-proxy/dragoman/proxy/replicas/sealed"
	"github.com/dragoman-proxy/dragoman/translate"
)

// TestSessionIDContainsTheClientsIdentity as far as there is room, and stays bounded.
func TestSessionIDContainsTheClientsIdentity(t *testing.T) {
	s, err := sealed.New([][]byte{bytes.Repeat([]byte{1}, sealed.KeyBytes)}, config.Upstream{URL: "u"}, time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ client, can, wantClient, wantCan string }{
		{`{"name":"c","version":"1","title":"C"}`, `{"roots":{}}`, `{"name":"c","version":"1","title":"C"}`, `{"roots":{}}`},
		{`{"name":"c","version":"1","title":"` + strings.Repeat("x", sealed.MaxIntroduced) + `"}`, `{"experimental":{"x":"` + strings.Repeat("x", sealed.MaxIntroduced) + `"}}`, `{"name":"c","version":"1"}`, ``},
		{`{"name":"` + strings.Repeat("x", sealed.MaxIntroduced) + `","version":"1"}`, `{}`, ``, `{}`},
		{``, ``, ``, ``},
	} {
		conn := &Conn{client: []byte(c.client), can: []byte(c.can)}
		want := sealed.Session{Made: time.Unix(1_700_000_000, 0), ClientRevision: translate.Oldest(), ServerRevision: translate.Lookup(translate.Modern())}
		conn.Introduced(&want)
		if want.ClientInfo != c.wantClient || want.Capabilities != c.wantCan {
			t.Errorf("%s: %+v", c.client, want)
		}
		id := s.SealSession(want)
		if got, ok := s.OpenSession(id, want.Made); !ok || got != want {
			t.Errorf("%+v became %+v, %t", want, got, ok)
		}
		if len(id) > 2<<10 {
			t.Errorf("%d bytes", len(id))
		}
	}
}

// TestTaskOfALongLife: a ttl may be larger than any time here can be.
func TestTaskOfALongLife(t *testing.T) {
	for ttl, want := range map[float64]time.Duration{-1: 0, 1500: 1500 * time.Millisecond, 1 << 53: maxTTL, 1e300: maxTTL} {
		if got := lifetime(ttl); got != want {
			t.Errorf("%v: %v", ttl, got)
		}
	}
}
