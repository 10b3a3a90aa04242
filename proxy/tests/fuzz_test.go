package tests

import (
	"context"
	"encoding/json"
	"strings"
	"sync"
	"testing"

	"github.com/tidwall/gjson"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/dragoman-proxy/dragoman/proxy"
	"github.com/dragoman-proxy/dragoman/proxy/config"
	"github.com/dragoman-proxy/dragoman/proxy/origin"
	"github.com/dragoman-proxy/dragoman/proxy/protocol/mcp"
)

// ugly are texts that peers may send although they should not.
var ugly = []string{
	``, ` `, `null`, `1`, `""`, `{}`, `{ }`, `[]`, `[[]]`, `[1]`, `[null,{}]`, `[,]`, `[` + pingOne + `,]`,
	`{"jsonrpc":"2.0"}`, `{"jsonrpc":"2.0","id":1}`, `{"jsonrpc":"2.0","id":1,"result":null}`, `{"jsonrpc":"2.0","id":1,"result":[]}`,
	`{"jsonrpc":"2.0","id":1,"result":{"tools":{}}}`, `{"jsonrpc":"2.0","id":1,"result":{"tools":[1,null,{"title":1}]}}`,
	`{"jsonrpc":"2.0","id":1,"error":null}`, `{"jsonrpc":"2.0","id":null,"error":{"code":1}}`, `{"jsonrpc":"2.0","error":{}}`,
	`{"jsonrpc":"2.0","id":"\u0000","method":"elicitation/create","params":{"requestedSchema":1}}`,
	`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":{}}}`,
	`{"jsonrpc":"2.0","method":"notifications/cancelled"}`,
	`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":[]}}`,
	`{"jsonrpc":"2.0","id":1e999999999,"method":"ping"}`, `{"jsonrpc":"2.0","id":"a","method":"initialize"}`,
	`{"jsonrpc":"2.0","id":"a","method":"initialize","params":{"protocolVersion":{},"capabilities":[]}}`,
	"\xef\xbb\xbf" + pingOne, "\xff", pingOne + pingOne, strings.Repeat(`[`, 600), `{"a":` + strings.Repeat(`[`, 600),
	initInIt, sampling, logLine, `[` + sampling + `,` + logLine + `]`,
}

// FuzzServerSays: whatever a server sends before its response, the client gets only JSON, then the
// response, once; nothing panics, and the session continues. Over HTTP and a pipe, between all
// revisions.
func FuzzServerSays(f *testing.F) {
	for i, text := range ugly {
		f.Add(text, uint8(i))
	}
	revisions := mcp.HandshakeNames()
	f.Fuzz(func(t *testing.T, text string, pick uint8) {
		vc, vu := revisions[pick%4], revisions[pick/4%4]
		first := true
		server := newFake(initializing(vu, func(m string) ([]string, error) {
			id := gjson.Get(m, "id").Raw
			if gjson.Get(m, "method").String() != "tools/call" {
				return nil, nil
			}
			if first {
				first = false
				return one("id:x "+text, answer(id))
			}
			return one(answer(id))
		}))
		server.piped = pick/16%2 == 1
		srv := quiet(t, server)
		defer srv.Close()
		s := srv.initializeWith(vc, `{"sampling":{},"roots":{},"elicitation":{}}`)
		r := srv.post(s, callOne)
		events := r.events
		if len(events) == 0 {
			events = []string{r.body}
		}
		answers := 0
		for i, e := range events {
			if e == "" && i == 0 {
				continue // an event with only an id
			}
			if !json.Valid([]byte(e)) {
				t.Errorf("the client got %q", e)
			}
			if gjson.Get(e, "id").Raw == "1" && !gjson.Get(e, "method").Exists() {
				answers++
			}
		}
		if answers != 1 {
			t.Errorf("%d answers in %q", answers, events)
		}
		if r := srv.post(s, callOne); r.body != answer(`1`) && len(r.events) == 0 {
			t.Errorf("afterwards: %+v", r)
		}
		srv.noPanic()
	})
}

// FuzzClientSays: whatever a client sends, it gets JSON or nothing, and the next message is served.
// With and without a session, over HTTP and a pipe.
func FuzzClientSays(f *testing.F) {
	for i, text := range ugly {
		f.Add(text, uint8(i))
	}
	revisions := mcp.HandshakeNames()
	f.Fuzz(func(t *testing.T, text string, pick uint8) {
		vc, vu := revisions[pick%4], revisions[pick/4%4]
		server := newFake(initializing(vu, func(m string) ([]string, error) {
			if id := gjson.Get(m, "id"); id.Exists() && gjson.Get(m, "method").Exists() {
				return one(`{"jsonrpc":"2.0","id":` + id.Raw + `,"result":{}}`)
			}
			return nil, nil
		}))
		srv := quiet(t, server)
		defer srv.Close()
		s := srv.initialize(vc)
		for _, session := range []string{s, ""} {
			r := srv.post(session, text)
			for _, e := range append(r.events, r.body) {
				if e != "" && !json.Valid([]byte(e)) {
					t.Errorf("the client got %q", e)
				}
			}
			if r := srv.post(s, pingOne); r.body != pingAnswer {
				t.Errorf("afterwards: %+v", r)
			}
		}
		srv.noPanic()

		if strings.ContainsAny(text, "\n\r") {
			return
		}
		piped := quiet(t, server)
		in := initialize(vc, `{}`) + "\n" + text + "\n" + `{"jsonrpc":"2.0","id":"last","method":"ping"}` + "\n"
		var out lockedBuffer
		if err := piped.ServePipe(context.Background(), strings.NewReader(in), &out); err != nil {
			t.Errorf("ended with %v", err)
		}
		last := false
		for line := range strings.Lines(out.String()) {
			if !json.Valid([]byte(line)) {
				t.Errorf("the client got %q", line)
			}
			last = last || gjson.Get(line, "id").Raw == `"last"`
		}
		if !last && !strings.Contains(text, `"last"`) {
			t.Errorf("the last message was not answered: %q", out.String())
		}
		piped.noPanic()
	})
}

// quiet is front without waiting for goroutines, which the workers of a fuzz run would disturb.
func quiet(t *testing.T, f *fakeServer) testServer { return quietWith(t, f.origin()) }

func quietWith(t *testing.T, o origin.Origin) testServer {
	core, logs := observer.New(zap.ErrorLevel)
	cfg := config.Default()
	cfg.Upstream.HandshakeTimeout, cfg.Upstream.ConnectTimeout = patience, patience
	srv, err := proxy.NewWith(cfg, zap.New(core), o)
	if err != nil {
		t.Fatal(err)
	}
	return testServer{srv, t, logs}
}

func (srv testServer) noPanic() {
	srv.t.Helper()
	for _, l := range srv.logs.All() {
		srv.t.Errorf("logged: %s %v", l.Message, l.ContextMap())
	}
}

type lockedBuffer struct {
	mu sync.Mutex
	strings.Builder
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.Builder.Write(p)
}
