package tests

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tidwall/gjson"
	"go.uber.org/zap"

	"github.com/dragoman-proxy/dragoman/proxy/config"
	"github.com/dragoman-proxy/dragoman/proxy/tests/peertest"
)

// busyServer returns a client of a synchronous server on stdio, which reads nothing while it works at a call. A process that
// reads nothing is ended soon, if it has nothing to do.
func busyServer(t *testing.T, change func(*config.Config)) *webClient {
	t.Helper()
	return serving(t, func(cfg *config.Config) {
		beforeBusyServer(cfg)
		change(cfg)
	})
}

func beforeBusyServer(cfg *config.Config) {
	cfg.Upstream.Command = []string{os.Args[0]}
	cfg.Upstream.Env = map[string]string{badChild: "is busy"}
	cfg.Upstream.UnreadTimeout = 50 * time.Millisecond
	cfg.Limits.Time = map[string]config.TimeLimit{"tools/call": {FirstByte: patience, Silence: patience}}
}

// slowWork is what a busy server works at, in a call to its tool slow, until it is released: after a while, or before.
type slowWork struct {
	t    *testing.T
	file string
	*time.Timer
}

func newSlowWork(t *testing.T, longest time.Duration) slowWork {
	t.Helper()
	w := slowWork{t: t, file: filepath.Join(t.TempDir(), "released")}
	w.Timer = time.AfterFunc(longest, w.release)
	t.Cleanup(func() { w.Stop() })
	return w
}

func (w slowWork) release() {
	if err := os.WriteFile(w.file, nil, 0o600); err != nil {
		w.t.Error(err)
	}
}

// call returns the call to slow with an id.
func (w slowWork) call(id int) string {
	return callOf(id, "slow", `,"arguments":{"until":"`+w.file+`"}`)
}

// hasBegun waits until the server is at work.
func (w slowWork) hasBegun() {
	w.t.Helper()
	eventually(w.t, "the server is at work", func() bool { _, err := os.Stat(w.file + ".begun"); return err == nil })
}

// workUntilReleased is the server's part of slowWork. A call that names no file takes a second.
func workUntilReleased(file string) {
	if file == "" {
		time.Sleep(time.Second)
		return
	}
	_ = os.WriteFile(file+".begun", nil, 0o600)
	for _, err := os.Stat(file); err != nil; _, err = os.Stat(file) {
		time.Sleep(10 * time.Millisecond)
	}
}

// numbered returns the number that the server gives the call of an answer; 0 for an error.
func (h heardAll) numbered() (n int) {
	if len(h.messages) == 1 {
		_, _ = fmt.Sscanf(gjson.Get(h.messages[0], "result.content.0.text").String(), "call %d", &n)
	}
	return n
}

// TestBusyServerOnStdio: what is sent to a server while it works at a call waits for it, however long that takes and however
// much it is. The process is not ended.
func TestBusyServerOnStdio(t *testing.T) {
	waits(t)
	for _, shared := range []bool{false, true} {
		runTogether(t, fmt.Sprint("shared ", shared), func(t *testing.T) {
			client := busyServer(t, func(cfg *config.Config) { cfg.Upstream.ShareChild = shared })
			client.initialize()
			other := client
			if shared {
				other = client.another()
				other.initialize()
			}
			var calls sync.WaitGroup
			work := newSlowWork(t, time.Second)
			calls.Go(func() {
				if n := client.ask("POST", work.call(1)).numbered(); n != 1 {
					t.Errorf("the slow call is number %d", n)
				}
			})
			work.hasBegun()
			large := strings.Repeat("x", 300<<10)
			for n := range 100 {
				text := strings.Repeat("x", 1<<10)
				if n == 50 {
					text = large
				}
				calls.Go(func() {
					h := other.ask("POST", callOf(100+n, "fast", `,"arguments":{"x":"`+text+`"}`))
					if h.numbered() == 0 {
						t.Errorf("call %d: %d %.300q", n, h.status, h.messages)
					}
				})
			}
			calls.Wait()
			client.isServed()
		})
	}
}

// TestCallThatABusyServerDoesNotReadInTime: it fails at its limit, or is cancelled, and the server never gets it. Other calls do
// not notice.
func TestCallThatABusyServerDoesNotReadInTime(t *testing.T) {
	waits(t)
	for _, how := range []string{"limit", "cancelled"} {
		runTogether(t, how, func(t *testing.T) {
			client := busyServer(t, func(cfg *config.Config) {
				if how == "limit" {
					cfg.Limits.Time["prompts/get"] = config.TimeLimit{FirstByte: 200 * time.Millisecond}
				}
			})
			client.initialize()
			var calls sync.WaitGroup
			work := newSlowWork(t, patience/2)
			calls.Go(func() {
				if n := client.ask("POST", work.call(1)).numbered(); n != 1 {
					t.Errorf("the slow call is number %d", n)
				}
			})
			work.hasBegun()
			calls.Go(func() { // fills the pipe
				h := client.ask("POST", callOf(2, "fast", `,"arguments":{"x":"`+strings.Repeat("x", 300<<10)+`"}`))
				if n := h.numbered(); n != 2 {
					t.Errorf("the call that is read in time is number %d: %d %.300q", n, h.status, h.messages)
				}
			})
			time.Sleep(50 * time.Millisecond)
			answered := make(chan struct{})
			calls.Go(func() {
				for how == "cancelled" { // until the call has come before its cancellation
					client.ask("POST", `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":3}}`)
					select {
					case <-answered:
						return
					case <-time.After(100 * time.Millisecond):
					}
				}
			})
			h := client.ask("POST", `{"jsonrpc":"2.0","id":3,"method":"prompts/get","params":{"name":"p"}}`)
			close(answered)
			switch {
			case !work.Stop():
				t.Error("it took as long as the server was busy")
			case how == "limit" && (len(h.messages) != 1 || withoutAdvice(gjson.Get(h.messages[0], "error.message").String()) != "upstream timed out"):
				t.Errorf("%d %q", h.status, h.messages)
			case how == "cancelled" && len(h.messages) != 0:
				t.Errorf("%d %q", h.status, h.messages)
			}
			work.release()
			calls.Wait()
			if n := client.ask("POST", callOf(4, "fast", "")).numbered(); n != 3 {
				t.Errorf("the next call is number %d", n)
			}
		})
	}
}

// onABusyPipe returns functions by which a client on a pipe says and hears something, before a busy server.
func onABusyPipe(t *testing.T, over string, change func(*config.Config)) (say func(string), hear func() string) {
	t.Helper()
	if over == "sse" {
		c := peertest.NewSSEClient(t, busyServer(t, change).base)
		say, hear = func(m string) { c.Post(m) }, c.Next
	} else {
		leavesNothing(t)
		cfg := config.Default()
		cfg.Upstream.HandshakeTimeout = patience
		beforeBusyServer(&cfg)
		change(&cfg)
		c := testServer{newOf(t, cfg, zap.NewNop()), t, nil}.pipe()
		say, hear = func(m string) { c.say(m) }, c.hear
	}
	say(introduction)
	hear()
	say(initializedNotice)
	return say, hear
}

// TestPipeBehindABusyServer: a client on a pipe has one way for all its messages. A call that waits for a busy server keeps no
// cancellation, limit or other message of it waiting, and those that the server gets keep their order.
func TestPipeBehindABusyServer(t *testing.T) {
	waits(t)
	for _, over := range []string{"stdio", "sse"} {
		for _, server := range []string{"is busy", "is busy, shared", "is busy and modern"} {
			for _, how := range []string{"answered", "cancelled", "limit"} {
				runTogether(t, fmt.Sprintf("%s, %s, %s", over, server, how), func(t *testing.T) {
					var got, want []string
					for range 5 {
						got, want = playBehindABusyServer(t, over, server, how)
						answered, read := slices.Contains(got, "3 "), how == "cancelled" && !slices.Contains(got, "5 call 3")
						if !answered && !read {
							break // else this machine was so slow that the server was busy no more
						}
					}
					if !slices.Equal(got, want) {
						t.Errorf("the client got %q, want %q", got, want)
					}
				})
			}
		}
	}
}

// playBehindABusyServer returns what the client of one case got, and what it should get.
func playBehindABusyServer(t *testing.T, over, server, how string) (got, want []string) {
	say, hear := onABusyPipe(t, over, func(cfg *config.Config) {
		var shared bool
		cfg.Upstream.Env[badChild], shared = strings.CutSuffix(server, ", shared")
		cfg.Upstream.ShareChild = shared
		if how == "limit" {
			cfg.Limits.Time["prompts/get"] = config.TimeLimit{FirstByte: 200 * time.Millisecond}
		}
	})
	big := `,"arguments":{"x":"` + strings.Repeat("x", 300<<10) + `"}`
	work := newSlowWork(t, patience/2)
	say(work.call(1))
	work.hasBegun()
	say(callOf(2, "fast", big)) // fills the pipe
	if how == "limit" {
		say(`{"jsonrpc":"2.0","id":3,"method":"prompts/get","params":{"name":"p"}}`)
	} else {
		say(callOf(3, "fast", ""))
	}
	say(callOf(4, "fast", big))
	say(callOf(5, "fast", ""))
	want = []string{"1 call 1", "2 call 2", "3 call 3", "4 call 4", "5 call 5"}
	unsorted := len(want)
	switch how {
	case "cancelled":
		unsorted = 4
		say(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":3}}`)
		say(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":4}}`)
		say(callOf(6, "fast", ""))
		want = []string{"1 call 1", "2 call 2", "5 call 3", "6 call 4"}
	case "limit":
		unsorted = 4 // all but the first, which does not wait for the server
		want = []string{"3 upstream timed out", "1 call 1", "2 call 2", "4 call 3", "5 call 4"}
	}
	if how != "limit" {
		time.AfterFunc(200*time.Millisecond, work.release) // all that was said has come in
	}
	for range want {
		m := gjson.Parse(hear())
		got = append(got, m.Get("id").Raw+" "+m.Get("result.content.0.text").String()+withoutAdvice(m.Get("error.message").String()))
		work.release() // a call that fails at its limit has done so
	}
	if strings.HasSuffix(server, "modern") { // each answer of another era has a goroutine
		slices.Sort(got[len(got)-unsorted:])
	}
	return got, want
}

// TestBusyServerThatEnds: the calls that wait for it fail.
func TestBusyServerThatEnds(t *testing.T) {
	waits(t)
	for _, over := range []string{"stdio", "sse"} {
		runTogether(t, over, func(t *testing.T) {
			say, hear := onABusyPipe(t, over, quickly)
			work := newSlowWork(t, patience/2)
			say(work.call(1))
			for id := 2; id < 6; id++ {
				say(callOf(id, "ends", `,"arguments":{"x":"`+strings.Repeat("x", 200<<10)+`"}`))
			}
			work.release()
			failed := map[int64]bool{}
			for range 5 {
				m := gjson.Parse(hear())
				switch id := m.Get("id").Int(); {
				case id != 1:
					if failed[id] = true; !m.Get("error").Exists() {
						t.Errorf("a call got %s", m.Raw)
					}
				case m.Get("result.content.0.text").String() != "call 1":
					t.Errorf("the slow call got %s", m.Raw)
				}
			}
			if len(failed) != 4 {
				t.Errorf("%v have failed", failed)
			}
			say(callOf(9, "fast", ""))
			if m := hear(); gjson.Get(m, "id").Int() != 9 || gjson.Get(m, "result.content.0.text").String() != "call 1" {
				t.Errorf("the next process has answered %s", m)
			}
		})
	}
}
