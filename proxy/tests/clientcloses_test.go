package tests

import (
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/dragoman-proxy/dragoman/proxy/config"
	"github.com/dragoman-proxy/dragoman/proxy/tests/peertest"
)

// TestDeleteDoesNotWaitForTheServer: the client's session has ended before the server has answered DELETE, which it gets nevertheless.
// What it answers is in the log.
func TestDeleteDoesNotWaitForTheServer(t *testing.T) {
	s := newStateful(t, peertest.HTTP)
	others, asked, answer := s.Script, make(chan struct{}), make(chan struct{})
	s.Every = true
	s.Script = func(u *peertest.Turn) {
		if u.Text == "DELETE" {
			close(asked)
			u.Until(answer)
			u.Refuse(405)
			return
		}
		others(u)
	}
	leavesNothing(t)
	core, logs := observer.New(zap.InfoLevel)
	cfg := config.Default()
	behind(t, s.At(), &cfg)
	srv := newOf(t, cfg, zap.New(core))
	base, stop := startServing(t, srv)
	c := peertest.NewClient(t, peertest.Endpoint{URL: base + "/mcp"})
	begun := c.Say(initialize("2025-06-18", "{}"))
	begun.HasStatus(200)
	c.Session = begun.Header.Get("Mcp-Session-Id")
	c.Do("DELETE", "", map[string][]string{"Mcp-Session-Id": {c.Session}, "Authorization": {"Bearer mine"}}).HasStatus(200)
	c.Say(asksWhere).HasStatus(404)
	<-asked
	if m := s.Awaits(1, "DELETE", func(m string) bool { return m == "DELETE" }); m.Header.Get("Authorization") != "Bearer mine" {
		t.Errorf("%v", m.Header)
	}
	ended := make(chan error)
	go func() { ended <- stop() }()
	select {
	case <-ended:
		t.Error("the process has ended before the server has answered DELETE")
	case <-time.After(50 * time.Millisecond):
	}
	close(answer)
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if logs.FilterMessage("server did not end a session that its client has ended").Len() != 1 {
		t.Errorf("%v", logs.All())
	}
}

// TestUserAgent: every request of dragoman's to a server says which program it is of.
func TestUserAgent(t *testing.T) {
	waits(t)
	s := newStateful(t, peertest.HTTP)
	s.Every = true
	c := through(t, s.At()).client(t, false)
	c.Initialize("2025-06-18", "{}")
	c.Listen().Leave()
	c.Do("DELETE", "", map[string][]string{"Mcp-Session-Id": {c.Session}, "User-Agent": {"client/1"}}).HasStatus(200)
	s.Awaits(1, "DELETE", func(m string) bool { return m == "DELETE" })
	for _, m := range s.Heard() {
		if agent := m.Header.Get("User-Agent"); !strings.HasPrefix(agent, "dragoman/") {
			t.Errorf("%s: %q", m.Text, agent)
		}
	}
}

// TestServerThatAnswersNoDELETE gets no more connections the more sessions clients end: dragoman waits for some answers without them.
func TestServerThatAnswersNoDELETE(t *testing.T) {
	bubble(t, func(t *testing.T) {
		const most = 64 // that are awaited without a client
		s := newStateful(t, peertest.HTTP)
		others, answer := s.Script, make(chan struct{})
		var asked atomic.Int32
		s.Every = true
		s.Script = func(u *peertest.Turn) {
			if u.Text != "DELETE" {
				others(u)
				return
			}
			asked.Add(1)
			u.Until(answer)
			u.Answer(200, "")
		}
		c := through(t, s.At()).client(t, false)
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			for range most + 1 {
				c.Session = ""
				begun := c.Say(initialize("2025-06-18", "{}"))
				begun.HasStatus(200)
				c.Session = begun.Header.Get("Mcp-Session-Id")
				c.Do("DELETE", "", map[string][]string{"Mcp-Session-Id": {c.Session}}).HasStatus(200)
			}
		}()
		synctest.Wait()
		if n := asked.Load(); n != most+1 {
			t.Errorf("%d of %d are asked to end", n, most+1)
		}
		select {
		case <-ended:
			t.Error("no client waits")
		default:
		}
		close(answer)
		<-ended
	})
}

// TestServeEndsAtAServerThatAnswersNoDELETE: dragoman ends soon, whether its clients have ended their sessions before or not.
func TestServeEndsAtAServerThatAnswersNoDELETE(t *testing.T) {
	for _, how := range []string{"an open session", "a session that its client has ended", "a session of no client's"} {
		inBubble(t, how, func(t *testing.T) {
			s := newStateful(t, peertest.HTTP)
			others := s.Script
			s.Every = true
			s.Script = func(u *peertest.Turn) {
				if u.Text != "DELETE" {
					others(u)
					return
				}
				<-u.Ctx.Done()
			}
			cfg := config.Default()
			behind(t, s.At(), &cfg)
			base, stop := startServing(t, newOf(t, cfg, zap.NewNop()))
			c := peertest.NewClient(t, peertest.Endpoint{URL: base + "/mcp"})
			if how == "a session of no client's" {
				c.Say(modernRequestOf("1", "tools/call", `"name":"where","arguments":{},`+meta(`{}`))).Next()
			} else {
				c.Initialize("2025-06-18", "{}")
				synctest.Wait()
			}
			if how == "a session that its client has ended" {
				c.Do("DELETE", "", map[string][]string{"Mcp-Session-Id": {c.Session}}).HasStatus(200)
			}
			began := time.Now()
			if err := stop(); err != nil {
				t.Error(err)
			}
			if took := time.Since(began); took > time.Second {
				t.Errorf("it took %v", took)
			}
			s.Awaits(1, "DELETE", func(m string) bool { return m == "DELETE" })
		})
	}
}
