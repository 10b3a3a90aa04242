package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/tidwall/gjson"

	"github.com/dragoman-proxy/dragoman/proxy/tests/peertest/testset"
)

// across runs a client through three processes in turn that share a store.
func across(t *testing.T, ctx context.Context, proxy dragoman, c cell) (o outcome, b *balancer) {
	t.Helper()
	url, stop, err := c.server.serve(c.server.revision, streamable)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(stop)
	config := withStore(t, "")
	b = &balancer{called: map[string]*replica{}}
	b.set(proxy.replicas(t, 3, config, url)...)
	front := httptest.NewServer(b)
	t.Cleanup(front.Close)
	t.Cleanup(front.CloseClientConnections)
	o.steps, o.err = c.client.run(ctx, endpoint{over: streamable, url: front.URL, stderr: &output{}})
	for _, r := range b.replicas {
		o.log += r.log.String()
	}
	return o, b
}

// TestModernClientAcrossReplicas checks that a client without a session can answer through one process what the server
// asked through another. Its transcript must be the same as with a session and one process.
func TestModernClientAcrossReplicas(t *testing.T) {
	testset.Need(t, testset.Peers)
	t.Parallel()
	proxy := build(t)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	server := goServer("2025-11-25")
	not := withAll(notModern, notGoModern)
	want := proxied(ctx, proxy, cell{client: goSDK("2025-11-25", except(not)), server: server, down: streamable, up: streamable}, markOf("replicas"))
	got, b := across(t, ctx, proxy, cell{client: goSDKAsItIs(except(not)), server: server, down: streamable, up: streamable})
	if want.err != nil || got.err != nil {
		t.Fatalf("with a session: %v\nacross replicas: %v\n%s", want.err, got.err, tail(got.log))
	}
	if v := at(got.steps.step("initialize").Result, "protocolVersion"); v != newest {
		t.Fatalf("the client speaks %v", v)
	}
	compareEras(t, want.steps, got.steps, not)
	if b.crossed == 0 {
		t.Error("no question was answered through another replica")
	}
	if t.Failed() {
		t.Log(tail(got.log))
	}
}

// TestSessionsAtModernServersAcrossReplicas checks that a session at a server without sessions is the same session at all
// processes, with its log level, its subscriptions and its questions.
func TestSessionsAtModernServersAcrossReplicas(t *testing.T) {
	testset.Need(t, testset.Peers)
	t.Parallel()
	proxy := build(t)
	for _, revision := range []string{"2025-06-18", "2025-11-25"} {
		t.Run(revision, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			c := cell{client: goSDK(revision), server: goServer(newest), down: streamable, up: streamable}
			want := proxied(ctx, proxy, c, markOf("replicas-"+revision))
			got, b := across(t, ctx, proxy, c)
			if want.err != nil || got.err != nil {
				t.Fatalf("one process: %v\nacross replicas: %v\n%s", want.err, got.err, tail(got.log))
			}
			before, after := want.steps.comparable(), got.steps.comparable()
			for _, e := range want.steps {
				if diff := cmp.Diff(before[e.Step], after[e.Step]); diff != "" {
					t.Errorf("%s (-one process +across replicas):\n%s", e.Step, diff)
				}
			}
			if b.crossed == 0 {
				t.Error("no question was answered through another replica")
			}
			if t.Failed() {
				t.Log(tail(got.log))
			}
		})
	}
}

// TestProcessThatHoldsACallEnds kills or stops a process while it waits for a client's answer, and starts it again. The
// client must get an error that says so at every replica, and its next call must be served.
func TestProcessThatHoldsACallEnds(t *testing.T) {
	testset.Need(t, testset.Peers)
	proxy := build(t)
	server := goServer("2025-11-25")
	url, stopServer, err := server.serve("2025-11-25", streamable)
	if err != nil {
		t.Fatal(err)
	}
	defer stopServer()
	for name, end := range map[string]func(r *replica){
		"killed": (*replica).kill,
		"told to end": func(r *replica) {
			if err := stop(r.proxy.Process, r.ended); err != nil {
				t.Error(err)
			}
			r.ended <- nil
		},
	} {
		t.Run(name, func(t *testing.T) {
			config := withStore(t, "")
			all := proxy.replicas(t, 3, config, url)
			asked := say(t, all[0].url, elicitingCall("7", ""))
			if gjson.Get(asked, "result.resultType").String() != "input_required" {
				t.Fatal(asked)
			}
			answers := map[string]any{}
			gjson.Get(asked, "result.inputRequests").ForEach(func(key, _ gjson.Result) bool {
				answers[key.String()] = map[string]any{"action": "decline"}
				return true
			})
			inputs, err := json.Marshal(answers)
			if err != nil {
				t.Fatal(err)
			}
			retry := elicitingCall("8", fmt.Sprintf(`"inputResponses":%s,"requestState":%s,`, inputs, gjson.Get(asked, "result.requestState").Raw))
			end(all[0])
			for _, r := range append(proxy.replicas(t, 1, config, url), all[1:]...) {
				const want = `{"jsonrpc":"2.0","id":8,"error":{"code":-32602,"message":"Invalid or expired requestState"}}`
				if got := say(t, r.url, retry); got != want {
					t.Errorf("got %s, want %s", got, want)
				}
			}
			if got := say(t, all[1].url, elicitingCall("9", "")); gjson.Get(got, "result.resultType").String() != "input_required" {
				t.Errorf("the next call: %s", got)
			}
		})
	}
}

// elicitingCall returns a call of the tool that asks its user something.
func elicitingCall(id, more string) string {
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"method":"tools/call","params":{"name":"trigger-elicitation-request","arguments":{},%s`+
		`"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{"elicitation":{"form":{}}}}}}`, id, more)
}

// say sends a request of a client without a session, and returns the answer.
func say(t *testing.T, url, body string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	for name, value := range map[string]string{
		"Content-Type": "application/json", "Accept": "application/json, text/event-stream", "MCP-Protocol-Version": "2026-07-28",
		"Mcp-Method": gjson.Get(body, "method").String(), "Mcp-Name": gjson.Get(body, "params.name").String(),
	} {
		req.Header.Set(name, value)
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(text))
}
