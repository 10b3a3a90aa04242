package tests

import (
	"fmt"
	"testing"
	"time"

	"github.com/tidwall/gjson"

	"github.com/dragoman-proxy/dragoman/proxy/origin/era"
	"github.com/dragoman-proxy/dragoman/proxy/tests/peertest"
)

// keptInMemory is what was remembered of a server.
type keptInMemory struct {
	era.Remembered
	any bool
}

func (k *keptInMemory) Recall() (era.Remembered, bool) { return k.Remembered, k.any }
func (k *keptInMemory) Remember(r era.Remembered)      { *k = keptInMemory{r, true} }
func (k *keptInMemory) Forget()                        { *k = keptInMemory{} }

// TestWhatAServerWasDecidesTheFirstQuestion: what is remembered of a command decides what its process is sent first and how long
// its answer is awaited, but not its era. What turns out to be wrong is forgotten.
func TestWhatAServerWasDecidesTheFirstQuestion(t *testing.T) {
	const slow = 8 * time.Second // of the processes until they answer their first message
	server := func(version string, modern bool, pinned bool) *fakeServer {
		f := newFake(nil)
		begun := false
		var before chan struct{} // closed when the message before was handled
		var handle func(u *peertest.Turn)
		f.Script = func(u *peertest.Turn) {
			ready, done := before, make(chan struct{})
			before = done
			go func() {
				if ready == nil {
					time.Sleep(slow)
				} else {
					<-ready
				}
				handle(u)
				close(done)
			}()
		}
		handle = func(u *peertest.Turn) {
			info := `{"name":"s","version":"` + version + `"}`
			switch method := gjson.Get(u.Text, "method").String(); {
			case u.ID == "":
			case method == "initialize":
				begun = true
				u.Say(result(u.ID, `"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":`+info))
			case method == "server/discover" && modern && !(begun && pinned):
				u.Say(result(u.ID, `"resultType":"complete","supportedVersions":["2026-07-28"],"capabilities":{"tools":{}},"_meta":{"io.modelcontextprotocol/serverInfo":`+info+`}`))
			case method == "tools/list":
				u.Say(result(u.ID, `"resultType":"complete","tools":[]`))
			default:
				u.Say(rpcError(u.ID, `"code":-32601,"message":"m"`))
			}
		}
		f.piped, f.asked = true, true
		return f
	}
	// was returns what is remembered of a server of version 1.
	was := func(t *testing.T, modern bool) (k keptInMemory) {
		o, _ := childProcesses(t, server("1", modern, true))
		srv := frontOf(t, o)
		srv.Eras.Memory = &k
		if srv.Eras.Silence = time.Second; modern {
			srv.Eras.Silence = time.Minute
		}
		if _, err := srv.Eras.Of(t.Context(), nil); err != nil || !k.any || k.Modern != modern {
			t.Fatalf("remembers %+v, %v", k, err)
		}
		return k
	}
	never := func(*testing.T) keptInMemory { return keptInMemory{} }
	handshake := func(t *testing.T) keptInMemory { return was(t, false) }
	both := func(t *testing.T) keptInMemory { return was(t, true) }
	for _, c := range []struct {
		name    string
		known   func(*testing.T) keptInMemory
		is      func() *fakeServer
		started int
		want    string // the era
		first   []string
		modern  bool // what is remembered then
		took    time.Duration
	}{
		{"nothing, handshake", never, func() *fakeServer { return server("1", false, true) }, 1, "handshake",
			[]string{"server/discover", "initialize"}, false, slow},
		{"nothing, both", never, func() *fakeServer { return server("1", true, true) }, 2, "2026-07-28 handshake",
			[]string{"server/discover", "initialize"}, true, 2 * slow},
		{"handshake", handshake, func() *fakeServer { return server("1", false, true) }, 1, "handshake", []string{"initialize", "server/discover"}, false, slow},
		{"modern", both, func() *fakeServer { return server("1", true, true) }, 1, "2026-07-28",
			[]string{"server/discover", "server/discover"}, true, slow},
		{"modern, now without", both, func() *fakeServer { return server("1", false, true) }, 1, "handshake",
			[]string{"server/discover", "initialize"}, false, slow},
		{"handshake, another version", handshake, func() *fakeServer { return server("2", true, true) }, 3, "2026-07-28 handshake",
			[]string{"initialize"}, true, 3 * slow},
		{"handshake, now both", handshake, func() *fakeServer { return server("1", true, false) }, 2, "2026-07-28 handshake",
			[]string{"initialize", "server/discover"}, true, 2 * slow},
	} {
		inBubble(t, c.name, func(t *testing.T) {
			known := c.known(t)
			first := c.is()
			o, started := childProcesses(t, first, c.is(), c.is())
			srv := frontOf(t, o)
			srv.Eras.Memory, srv.Eras.Silence = &known, time.Second
			begin := time.Now()
			r := srv.modernly(modernRequestOf("7", "tools/list", meta(`{}`)))
			if !gjson.Get(r.body, "result.tools").IsArray() {
				t.Errorf("%s", r.body)
			}
			if took := time.Since(begin); took < c.took || took > c.took+4*time.Second {
				t.Errorf("it took %v", took)
			}
			if e := srv.Eras.Peek(nil); e == nil || concluded(e) != c.want {
				t.Errorf("concluded %+v", e)
			}
			if *started != c.started {
				t.Errorf("%d processes", *started)
			}
			var asked []string
			for _, m := range first.sent() {
				if method := gjson.Get(m, "method").String(); method == "initialize" || method == "server/discover" {
					asked = append(asked, method)
				}
			}
			if fmt.Sprint(asked) != fmt.Sprint(c.first) {
				t.Errorf("asked %q", asked)
			}
			if known.Modern != c.modern {
				t.Errorf("remembers %+v", known)
			}
		})
	}
}
