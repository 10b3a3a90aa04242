package tests

import (
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/tidwall/gjson"

	"github.com/dragoman-proxy/dragoman/proxy/config"
	"github.com/dragoman-proxy/dragoman/proxy/replicas/sealed"
	"github.com/dragoman-proxy/dragoman/proxy/tests/peertest"
	"github.com/dragoman-proxy/dragoman/proxy/transport/downstream"
)

// processServer is a proxy for a server on stdio, with a limit of processes.
func processServer(t *testing.T, most int, change ...func(*config.Config)) *webClient {
	return serving(t, func(cfg *config.Config) {
		cfg.Upstream.Command, cfg.Upstream.Env = []string{os.Args[0]}, map[string]string{badChild: "hangs"} // used in tools/call
		cfg.Session.MaxProcesses = most
		for _, c := range change {
			c(cfg)
		}
	})
}

func asUser(is string) []string { return []string{"X-User", is} }

func byUser(c *config.Config) { c.Bridge.Principal = "header:X-User" }

// lives reports whether a session exists.
func (c *webClient) lives(session string, header ...string) bool {
	c.t.Helper()
	status, said := c.as(http.MethodPost, session, strings.Replace(pingOne, `"id":1`, `"id":"p"`, 1), header...)
	if status != 200 && status != 404 {
		c.t.Errorf("%d %s", status, said)
	}
	return status == 200
}

// TestOneAddressDoesNotStartProcessesWithoutEnd: beyond the limit, the session that was idle for
// the longest time ends.
func TestOneAddressDoesNotStartProcessesWithoutEnd(t *testing.T) {
	client := processServer(t, 4)
	var all []string
	for range 12 {
		all = append(all, client.begins())
		if n := counted(t, client.srv.Metrics, "dragoman_upstream_processes"); n > 4 {
			t.Fatalf("%d processes", n)
		}
	}
	for i, session := range all {
		if lives := client.lives(session); lives != (i >= 8) {
			t.Errorf("session %d: %v", i, lives)
		}
	}
	if status, said := client.as(http.MethodDelete, all[11], ""); status >= 300 {
		t.Errorf("%d %s", status, said)
	}
	eventually(t, "three processes, after one has ended", func() bool { return counted(t, client.srv.Metrics, "dragoman_upstream_processes") == 3 })
}

// TestAQuarterOfTheProcessesIsEachClients: a client can always have a quarter of the processes,
// also while others want more.
func TestAQuarterOfTheProcessesIsEachClients(t *testing.T) {
	client := processServer(t, 8, byUser)
	var anns, bobs []string
	for range 8 {
		anns = append(anns, client.begins(asUser("ann")...))
	}
	for range 3 {
		bobs = append(bobs, client.begins(asUser("bob")...))
	}
	for i, session := range anns {
		if lives := client.lives(session, asUser("ann")...); lives != (i >= 2) {
			t.Errorf("ann's session %d: %v", i, lives)
		}
	}
	for i, session := range bobs {
		if lives := client.lives(session, asUser("bob")...); lives != (i >= 1) {
			t.Errorf("bob's session %d: %v", i, lives)
		}
	}
}

// TestASessionWhoseMessageHasComeIsNotEnded: its request would be lost. The client's standing stream does not keep it.
func TestASessionWhoseMessageHasComeIsNotEnded(t *testing.T) {
	client := processServer(t, 1)
	session := client.begins()
	listening := (&peertest.Client{T: t, URL: client.base + "/mcp", HTTP: client.http, Session: session}).Listen()
	s, err := client.srv.Table.Find(session, sealed.Owner{}, &downstream.Sender{}) // as for a message that is not read yet
	if s == nil {
		t.Fatal(err)
	}
	if h := client.another().ask("POST", initialize("2025-06-18", `{}`)); h.status != 503 {
		t.Errorf("%+v", h)
	}
	s.Leave()
	if h := client.another().ask("POST", initialize("2025-06-18", `{}`)); h.status != 200 {
		t.Errorf("%+v", h)
	}
	listening.Leave()
}

// TestBusyProcessesAreNotEnded: another client is refused, with a Retry-After. Modern clients and
// clients on HTTP+SSE count too.
func TestBusyProcessesAreNotEnded(t *testing.T) {
	client := processServer(t, 1)
	session := client.begins()
	calls := (&peertest.Client{T: t, URL: client.base + "/mcp", HTTP: client.http, Session: session})
	going := calls.Say(callOne)
	eventually(t, "the call has begun", func() bool {
		s, _ := client.srv.Table.Find(session, sealed.Owner{}, &downstream.Sender{})
		if s == nil {
			return false
		}
		defer s.Leave()
		return !s.Open.None()
	})
	h := client.another().ask("POST", initialize("2025-06-18", `{}`))
	if h.status != 503 || h.header.Get("Retry-After") == "" || !strings.Contains(strings.Join(h.messages, ""), "too many processes") {
		t.Errorf("%+v", h)
	}
	modern := (&peertest.Client{T: t, URL: client.base + "/mcp", HTTP: client.http}).Say(modernRequestOf("1", "tools/list", meta(`{}`)))
	modern.HasStatus(503)
	if m := modern.Next(); gjson.Get(m, "id").Raw != "1" {
		t.Error(m)
	}
	old := peertest.NewSSEClient(t, client.base)
	old.Post(initialize("2024-11-05", `{}`))
	if m := old.Next(); !strings.Contains(m, "too many processes") {
		t.Error(m)
	}
	calls.Say(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}`).HasStatus(202)
	going.Leave()
	if !client.lives(session) {
		t.Error("the session is gone")
	}
}

// TestIdleSessionsOfAllKindsGiveWay: also pooled sessions, and those on HTTP+SSE.
func TestIdleSessionsOfAllKindsGiveWay(t *testing.T) {
	client := processServer(t, 1)
	modern := &peertest.Client{T: t, URL: client.base + "/mcp", HTTP: client.http}
	list := modernRequestOf("1", "tools/list", meta(`{}`))
	pooled := modern.Say(list)
	pooled.HasStatus(200)
	for range pooled.Events {
	}
	idle := func() (n int) { // a client receives its response before its session is idle
		client.srv.Modern.EachIdle(func(string) bool { return true }, func(time.Time, func() bool) { n++ })
		return n
	}
	eventually(t, "the pooled session is idle", func() bool { return idle() > 0 })
	old := peertest.NewSSEClient(t, client.base)
	old.Post(initialize("2024-11-05", `{}`))
	if m := old.Next(); !gjson.Get(m, "result").Exists() {
		t.Fatal(m)
	}
	session := client.begins()
	if _, err := old.In.ReadByte(); err == nil {
		t.Error("the stream goes on")
	}
	modern.Say(list).HasStatus(200)
	if client.lives(session) {
		t.Error("the session is still there")
	}
	if n := counted(t, client.srv.Metrics, "dragoman_upstream_processes"); n != 1 {
		t.Errorf("%d processes", n)
	}
}

// TestASharedProcessIsOne, however many sessions share it.
func TestASharedProcessIsOne(t *testing.T) {
	client := processServer(t, 1, func(c *config.Config) { c.Upstream.ShareChild = true })
	for range 5 {
		if session := client.begins(); !client.lives(session) {
			t.Error("the session is gone")
		}
	}
	if n := counted(t, client.srv.Metrics, "dragoman_upstream_processes"); n != 1 {
		t.Errorf("%d processes", n)
	}
}
