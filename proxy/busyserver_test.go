package proxy

import (
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tidwall/gjson"

	"github.com/dragoman-proxy/dragoman/proxy/config"
)

// busyServer returns a client of a synchronous server on stdio, which reads nothing while it works at a call. A process that
// reads nothing is ended soon, if it has nothing to do.
func busyServer(t *testing.T, change func(*config.Config)) *webClient {
	t.Helper()
	return serving(t, func(cfg *config.Config) {
		cfg.Upstream.Command = []string{os.Args[0]}
		cfg.Upstream.Env = map[string]string{badChild: "is busy"}
		cfg.Upstream.UnreadTimeout = 50 * time.Millisecond
		cfg.Limits.Time = map[string]config.TimeLimit{"tools/call": {FirstByte: patience, Silence: patience}}
		change(cfg)
	})
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
			begun := make(chan struct{})
			calls.Go(func() {
				close(begun)
				if n := client.ask("POST", callOf(1, "slow", "")).numbered(); n != 1 {
					t.Errorf("the slow call is number %d", n)
				}
			})
			<-begun
			time.Sleep(100 * time.Millisecond) // until the server is at work; if it is not yet, the test shows less
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
	for _, how := range []string{"limit", "cancelled"} {
		runTogether(t, how, func(t *testing.T) {
			client := busyServer(t, func(cfg *config.Config) {
				if how == "limit" {
					cfg.Limits.Time["prompts/get"] = config.TimeLimit{FirstByte: 200 * time.Millisecond}
				}
			})
			client.initialize()
			var calls sync.WaitGroup
			calls.Go(func() {
				if n := client.ask("POST", callOf(1, "slow", "")).numbered(); n != 1 {
					t.Errorf("the slow call is number %d", n)
				}
			})
			time.Sleep(100 * time.Millisecond)
			calls.Go(func() { // fills the pipe
				h := client.ask("POST", callOf(2, "fast", `,"arguments":{"x":"`+strings.Repeat("x", 300<<10)+`"}`))
				if n := h.numbered(); n != 2 {
					t.Errorf("the call that is read in time is number %d: %d %.300q", n, h.status, h.messages)
				}
			})
			time.Sleep(50 * time.Millisecond)
			if how == "cancelled" {
				calls.Go(func() {
					time.Sleep(100 * time.Millisecond)
					client.ask("POST", `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":3}}`)
				})
			}
			begin := time.Now()
			h := client.ask("POST", `{"jsonrpc":"2.0","id":3,"method":"prompts/get","params":{"name":"p"}}`)
			switch took := time.Since(begin); {
			case took > 700*time.Millisecond:
				t.Errorf("it took %v, as long as the server was busy", took)
			case how == "limit" && (len(h.messages) != 1 || gjson.Get(h.messages[0], "error.message").String() != "upstream timed out"):
				t.Errorf("%d %q", h.status, h.messages)
			case how == "cancelled" && len(h.messages) != 0:
				t.Errorf("%d %q", h.status, h.messages)
			}
			calls.Wait()
			if n := client.ask("POST", callOf(4, "fast", "")).numbered(); n != 3 {
				t.Errorf("the next call is number %d", n)
			}
		})
	}
}
