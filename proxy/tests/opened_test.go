package tests

import (
	"context"
	"testing"
	"time"

	"github.com/tidwall/gjson"

	"github.com/dragoman-proxy/dragoman/proxy/config"
)

// TestClientThatLeavesWhileItsURLsAreWaitedFor: the call is not repeated.
func TestClientThatLeavesWhileItsURLsAreWaitedFor(t *testing.T) {
	f := legacyServer(`{"tools":{}}`, func(id, method, _ string) ([]string, error) {
		if method == "tools/call" {
			return one(rpcError(id, `"code":-32042,"message":"m","data":{"elicitations":[{"mode":"url","elicitationId":"e1","url":"https://a.example/c","message":"Sign in"}]}`))
		}
		return one(result(id, ""))
	})
	f.NoGet = true
	srv := front(t, f, func(c *config.Config) { c.Bridge.OpenedTimeout = time.Hour })
	const url = `{"elicitation":{"url":{}}}`
	r := srv.modernly(asCall("7", url, ""))
	ctx, leave := context.WithCancel(context.Background())
	body := asCall("8", url, `"inputResponses":{"elicitation-1":{"action":"accept"}},"requestState":`+gjson.Get(r.body, "result.requestState").Raw+`,`)
	done := make(chan struct{})
	go func() {
		defer close(done)
		_, resp := srv.begin(ctx, "POST", "", body, modernHeader(body)...)
		resp.Done()
	}()
	eventually(t, "the retry waits", func() bool { return srv.Modern.Counts().Parked == 0 })
	leave()
	<-done
	if n := len(f.said("tools/call")); n != 1 {
		t.Errorf("%d calls", n)
	}
	eventually(t, "no call waits for ever", func() bool { return srv.Modern.Counts().Opening == 0 })
}
