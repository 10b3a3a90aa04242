package tests

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tidwall/gjson"
	"go.uber.org/zap"

	"github.com/dragoman-proxy/dragoman/proxy/config"
	"github.com/dragoman-proxy/dragoman/proxy/ops/report"
	"github.com/dragoman-proxy/dragoman/proxy/tests/peertest"
	"github.com/dragoman-proxy/dragoman/proxy/transport/upstream"
)

// TestProcessThatStartsSlowly: a process may take longer to start than dragoman waits for an answer
// to server/discover.
func TestProcessThatStartsSlowly(t *testing.T) {
	list := func(id, _, _ string) ([]string, error) { return one(result(id, `"resultType":"complete","tools":[]`)) }
	// refusing is a server that answers initialize with these members, after its id.
	refusing := func(f *fakeServer, members string) *fakeServer {
		f.on("initialize", func(u *peertest.Turn) { u.Say(rpcError(u.ID, members)) })
		return f
	}
	discovering := func(versions string) func(id, method, m string) ([]string, error) {
		return func(id, method, m string) ([]string, error) {
			switch {
			case method != "server/discover":
				return list(id, method, m)
			case versions != "":
				return one(result(id, `"resultType":"complete","supportedVersions":`+versions+`,"capabilities":{"tools":{}}`))
			}
			return nil, nil
		}
	}
	modern := func() *fakeServer { return modernServer(true, `"capabilities":{"tools":{}}`, list) }
	refusingDiscovery := func(id, method, m string) ([]string, error) {
		if method == "server/discover" {
			return one(rpcError(id, `"code":-32601,"message":"m"`))
		}
		return list(id, method, m)
	}
	for _, c := range []struct {
		name string
		is   *fakeServer
		want string
	}{
		{"modern, -32022", refusing(modern(), `"code":-32022,"message":"m","data":{"supported":["2026-07-28"]}`), "2026-07-28"},
		{"modern, -32601", modern(), "2026-07-28"},
		{"both", legacyServer(`{"tools":{}}`, discovering(`["2026-07-28","2025-11-25"]`)), "2026-07-28 handshake 2025-11-25"},
		{"legacy, silent", legacyServer(`{"tools":{}}`, discovering("")), "handshake"},
		{"legacy, refuses", legacyServer(`{"tools":{}}`, refusingDiscovery), "handshake"},
	} {
		for _, piped := range []bool{false, true} {
			inBubble(t, c.name+" "+transportName(piped), func(t *testing.T) {
				s := peertest.NewServer(t, peertest.Stdio, func(*peertest.Turn) {})
				s.Sessions = true
				s.First = func(u *peertest.Turn) {
					if len(s.In(u.Session.ID)) == 1 {
						time.Sleep(300 * time.Millisecond) // the process starts
					}
					c.is.Script(u)
				}
				cfg := config.Default()
				cfg.Upstream.HandshakeTimeout, cfg.Upstream.ConnectTimeout = patience, patience
				behind(t, s.At(), &cfg)
				srv := newOf(t, cfg, zap.NewNop())
				srv.Eras.Silence = 50 * time.Millisecond
				front := testServer{srv, t, nil}
				good := func(said string) {
					if !gjson.Get(said, "result.tools").IsArray() {
						t.Errorf("%s: %s", c.name, said)
					}
				}
				request := modernRequestOf("7", "tools/list", meta(`{"elicitation":{"form":{}}}`))
				if piped {
					client := front.pipe()
					for range 2 {
						client.say(request)
						good(client.hear())
					}
				} else {
					t.Cleanup(srv.Close)
					for range 2 {
						good(front.modernly(request).body)
					}
				}
				if e := srv.Eras.Peek(nil); e == nil || concluded(e) != c.want {
					t.Errorf("%s: concluded %+v", c.name, e)
				}
				if strings.HasPrefix(c.want, "handshake") {
					if n := len(s.Opened()); n != 1 {
						t.Errorf("the server was started %d times", n)
					}
					for _, m := range s.In(s.Opened()[0].ID) {
						if gjson.Get(m.Text, "method").String() == "initialize" && !gjson.Get(m.Text, "params.capabilities.elicitation").Exists() {
							t.Errorf("the session began without the client's capabilities: %s", m.Text)
						}
					}
				}
				if strings.HasPrefix(c.want, "handshake") || piped {
					return
				}
				for _, vc := range []string{"2024-11-05", "2025-11-25"} {
					good(front.post(front.initialize(vc), `{"jsonrpc":"2.0","id":5,"method":"tools/list"}`).body)
				}
				for i, process := range s.Opened() {
					if got := fmt.Sprint(s.In(process.ID)); i > 0 && !strings.Contains(c.want, "handshake") && strings.Contains(got, "initialize") {
						t.Errorf("%s: process %d got %s", c.name, i, got)
					}
				}
			})
		}
	}
}

// TestResponsesToBothRequestsDecideTheEra: a process that does not answer server/discover is also sent
// initialize, and the era follows from its responses.
func TestResponsesToBothRequestsDecideTheEra(t *testing.T) {
	const discovered = `"resultType":"complete","supportedVersions":["2026-07-28"],"capabilities":{}`
	const refused = `"code":-32022,"message":"m","data":{"supported":["2026-07-28"]}`
	begun := func(version string) string {
		return `"protocolVersion":"` + version + `","capabilities":{},"serverInfo":{"name":"s","version":"2"}`
	}
	type says func(discover, initialize string) []string // returns the responses, given the ids of both requests
	answers := func(members string) says {
		return func(_, id string) []string { return []string{result(id, members)} }
	}
	refuses := func(members string) says {
		return func(_, id string) []string { return []string{rpcError(id, members)} }
	}
	for _, c := range []struct {
		name string
		says says
		want string
	}{
		{"initialize is answered", answers(begun("2025-11-25")), "handshake"},
		{"in a revision without one", answers(begun("2026-07-28")), "2026-07-28"},
		{"-32022 with a modern one", refuses(refused), "2026-07-28"},
		{"-32022 with legacy ones", refuses(`"code":-32022,"message":"m","data":{"supported":["2025-03-26","2025-06-18"]}`), "handshake 2025-06-18"},
		{"-32022 with an unknown revision", refuses(`"code":-32022,"message":"m","data":{"supported":["2031-01-01"]}`), ""},
		{"-32602 with legacy ones", refuses(`"code":-32602,"message":"m","data":{"supported":["2024-11-05"]}`), "handshake"},
		{"-32022", refuses(`"code":-32022,"message":"m"`), "2026-07-28"},
		{"-32601", refuses(`"code":-32601,"message":"m"`), "2026-07-28"},
		{"-32000", refuses(`"code":-32000,"message":"m"`), "handshake"},
		{"an error without an id", func(_, _ string) []string { return []string{rpcError("null", `"code":-32700,"message":"m"`)} }, "handshake"},
		{"discover, late", func(d, _ string) []string { return []string{result(d, discovered)} }, "2026-07-28"},
		{"discover, then a refusal", func(d, i string) []string { return []string{result(d, discovered), rpcError(i, refused)} }, "2026-07-28"},
		{"a session, then discover", func(d, i string) []string {
			return []string{result(i, begun("2025-11-25")), result(d, strings.Replace(discovered, `]`, `,"2025-11-25"]`, 1))}
		}, "2026-07-28 handshake 2025-11-25"},
		{"discover is refused, then a session", func(d, i string) []string {
			return []string{rpcError(d, `"code":-32601,"message":"m"`), result(i, begun("2025-11-25"))}
		}, "handshake"},
	} {
		inBubble(t, c.name, func(t *testing.T) {
			var asked string
			f := newFake(nil)
			f.Script = replies(func(m string) ([]string, error) {
				switch id := gjson.Get(m, "id").Raw; gjson.Get(m, "method").String() {
				case "server/discover":
					asked = id
				case "initialize":
					return c.says(asked, id), nil
				}
				return nil, nil
			})
			f.piped, f.asked = true, true
			srv := front(t, f)
			srv.Eras.Silence = time.Millisecond
			got := ""
			e, err := srv.Eras.Of(t.Context(), nil)
			if err == nil {
				got = concluded(e)
			}
			if got != c.want {
				t.Errorf("concluded %q (%v)", got, err)
			}
			if known := err == nil; known != (srv.Eras.Peek(nil) != nil) {
				t.Errorf("remembered %v", srv.Eras.Peek(nil))
			}
			if b, _ := srv.Eras.TakeSpare(t.Context(), []byte("another initialize")); b != nil {
				t.Error("a process that has begun a session is given to another one")
			}
			synctest.Wait()
			if f.ends() == 0 {
				t.Error("a process that no session can use goes on")
			}
		})
	}
}

// TestProcessThatStaysSilent: the process is given up after one attempt, and no era is stored.
func TestProcessThatStaysSilent(t *testing.T) {
	mute := func() *fakeServer {
		f := newFake(replies(func(string) ([]string, error) { return nil, nil }))
		f.piped, f.asked = true, true
		return f
	}
	inBubble(t, "HTTP", func(t *testing.T) {
		o, started := childProcesses(t, mute(), plainFake(true, func(id, _, _ string) ([]string, error) {
			return one(result(id, `"resultType":"complete","tools":[]`))
		}))
		srv := frontOf(t, o, func(cfg *config.Config) { cfg.Upstream.HandshakeTimeout = time.Second })
		srv.Eras.Silence = time.Millisecond
		request := modernRequestOf("7", "tools/list", meta(`{}`))
		if r := srv.modernly(request); r.status != 504 {
			t.Errorf("%+v", r)
		}
		if srv.Eras.Peek(nil) != nil || *started != 1 {
			t.Errorf("%d processes", *started)
		}
		if r := srv.modernly(request); r.status != 200 {
			t.Errorf("%+v", r)
		}
	})
	inBubble(t, "pipe", func(t *testing.T) {
		o, started := childProcesses(t, mute())
		srv := frontOf(t, o, func(cfg *config.Config) { cfg.Upstream.HandshakeTimeout = 100 * time.Millisecond })
		srv.Eras.Silence = time.Millisecond
		c := srv.pipe()
		c.say(modernRequestOf("7", "tools/list", meta(`{}`)))
		c.hears(`{"jsonrpc":"2.0","id":7,"error":{"code":-32603,"message":"upstream timed out"}}`)
		if *started != 1 {
			t.Errorf("%d processes", *started)
		}
	})
}

// TestProcessThatEndsLate: the process ends after it has received both requests.
func TestProcessThatEndsLate(t *testing.T) {
	f := newFake(nil)
	f.Script = replies(func(m string) ([]string, error) {
		if gjson.Get(m, "method").String() == "initialize" {
			f.lose(&upstream.ExitError{Command: "s", Status: "exit status 1"})
		}
		return nil, nil
	})
	f.piped, f.asked = true, true
	srv := front(t, f)
	srv.Eras.Silence = time.Millisecond
	if e, err := srv.Eras.Of(t.Context(), nil); err != nil || concluded(e) != "handshake" {
		t.Errorf("%+v %v", e, err)
	}
}

// TestProcessIsNotSentInitializeNeedlessly: initialize is not sent if server/discover was answered, or
// if dragoman stops.
func TestProcessIsNotSentInitializeNeedlessly(t *testing.T) {
	f := plainFake(true, nil)
	srv := front(t, f)
	if e, err := srv.Eras.Of(t.Context(), nil); err != nil || !e.Modern() || len(f.said("initialize")) > 0 {
		t.Errorf("%+v %v, sent %q", e, err, f.sent())
	}
	silent := newFake(replies(func(string) ([]string, error) { return nil, nil }))
	silent.piped, silent.asked = true, true
	ended := front(t, silent)
	go func() {
		eventually(t, "it is asked", func() bool { return len(silent.sent()) > 0 })
		ended.Close()
	}()
	if _, err := ended.Eras.Of(context.Background(), nil); !errors.Is(err, report.ErrShutdown) && !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}
