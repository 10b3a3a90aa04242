package proxy

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/tidwall/gjson"

	"github.com/dragoman-proxy/dragoman/proxy/metrics"
	"github.com/dragoman-proxy/dragoman/proxy/upstream"
)

const (
	pingOne  = `{"jsonrpc":"2.0","id":1,"method":"ping"}`
	listTwo  = `{"jsonrpc":"2.0","id":2,"method":"tools/list"}`
	listOne  = `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`
	changed  = `{"jsonrpc":"2.0","method":"notifications/roots/list_changed"}`
	logLine  = `{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":"x"}}`
	noBatch  = `{"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"JSON-RPC batching is not supported in 2025-06-18"}}`
	initInIt = `[{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-03-26","capabilities":{},"clientInfo":{"name":"c","version":"1"}}},{"jsonrpc":"2.0","id":2,"method":"tools/list"}]`
)

// obliging answers every request according to its method.
func obliging(m string) ([]string, error) {
	id := gjson.Get(m, "id")
	if !id.Exists() {
		return nil, nil
	}
	result := `{}`
	if gjson.Get(m, "method").String() == "tools/list" {
		result = `{"tools":[]}`
	}
	return one(fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":%s}`, id.Raw, result))
}

func TestBatch(t *testing.T) {
	for _, c := range []struct {
		name, version, in string
		sent              []string
		status            int
		out               string // "" for an empty body
	}{
		{"46 requests around a notification", "2025-03-26", `[` + listOne + `,` + changed + `,{"jsonrpc":"2.0","id":"b","method":"ping"}]`,
			[]string{listOne, changed, `{"jsonrpc":"2.0","id":"b","method":"ping"}`}, 200,
			`[{"jsonrpc":"2.0","id":1,"result":{"tools":[]}},{"jsonrpc":"2.0","id":"b","result":{}}]`},
		{"47 of one", "2025-03-26", `[` + pingOne + `]`, []string{pingOne}, 200, `[{"jsonrpc":"2.0","id":1,"result":{}}]`},
		{"48 of notifications", "2025-03-26", `[{"jsonrpc":"2.0","method":"notifications/initialized"},` + changed + `]`,
			[]string{`{"jsonrpc":"2.0","method":"notifications/initialized"}`, changed}, 202, ``},
		{"49 holding initialize", "2025-03-26", initInIt, nil, 400,
			`{"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"initialize must not be part of a batch"}}`},
		{"49 holding initialize, from nobody", "", initInIt, nil, 400,
			`{"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"initialize must not be part of a batch"}}`},
		{"50 empty", "2025-03-26", `[]`, nil, 400, `{"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"Empty batch"}}`},
		{"51 bad element and duplicate id", "2025-03-26", `[1,{"jsonrpc":"2.0","id":7,"method":"ping"},{"jsonrpc":"2.0","id":7.0,"method":"ping"}]`,
			[]string{`{"jsonrpc":"2.0","id":7,"method":"ping"}`}, 200,
			`[{"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"Invalid Request"}},{"jsonrpc":"2.0","id":7,"result":{}},{"jsonrpc":"2.0","id":7.0,"error":{"code":-32600,"message":"Duplicate request id in batch"}}]`},
		{"53 from a 06 client", "2025-06-18", `[` + pingOne + `]`, nil, 400, noBatch},
		{"leniently from a 24 client", "2024-11-05", `[` + pingOne + `]`, []string{pingOne}, 200, `[{"jsonrpc":"2.0","id":1,"result":{}}]`},
		{"requests and responses mixed", "2025-03-26", `[{"jsonrpc":"2.0","id":"s","result":{}},` + pingOne + `]`,
			[]string{`{"jsonrpc":"2.0","id":"s","result":{}}`, pingOne}, 200, `[{"jsonrpc":"2.0","id":1,"result":{}}]`},
		{"unclosed", "2025-03-26", `[` + pingOne, nil, 400, ``},
		{"too many", "2025-03-26", `[` + strings.Repeat(pingOne+`,`, 100) + pingOne + `]`, nil, 400,
			`{"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"Too many messages in batch: 100 are allowed"}}`},
	} {
		for _, piped := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, piped %t", c.name, piped), func(t *testing.T) {
				f := newFake(initializing("2025-06-18", obliging))
				f.piped = piped
				srv := front(t, f)
				session := ""
				if c.version != "" {
					session = srv.initialize(c.version)
				}
				before := len(f.sent())
				r := srv.post(session, c.in)
				if r.status != c.status {
					t.Errorf("status %d, want %d: %s", r.status, c.status, r.body)
				}
				if c.sent != nil && piped {
					sameList(t, "sent", withoutIDs(f.sent()[before:]), withoutIDs(c.sent))
				} else if c.sent != nil {
					sameList(t, "sent", f.sent()[before:], c.sent)
				}
				switch {
				case c.out != "":
					sameJSON(t, r.body, c.out)
				case c.status == 202 && r.body != "":
					t.Errorf("body %q", r.body)
				case c.status == 400 && gjson.Get(r.body, "error.code").Int() != -32700:
					t.Errorf("body %q", r.body)
				}
			})
		}
	}
}

func TestBatchReplyKeepsTheRequestsOrder(t *testing.T) {
	f := newFake(nil)
	f.gate = make(chan struct{})
	f.answer = initializing("2025-03-26", func(m string) ([]string, error) {
		e, err := obliging(m)
		if gjson.Get(m, "id").Int() == 1 {
			e = append([]string{wait}, e...)
		}
		return e, err
	})
	srv := front(t, f)
	s := srv.initialize("2025-03-26")
	got := make(chan reply)
	go func() { got <- srv.post(s, `[`+pingOne+`,`+listTwo+`]`) }()
	eventually(t, "the second one answered", func() bool {
		return srv.outcomes(metrics.Succeeded, "tools/list") == 1
	})
	close(f.gate)
	sameJSON(t, (<-got).body, `[{"jsonrpc":"2.0","id":1,"result":{}},{"jsonrpc":"2.0","id":2,"result":{"tools":[]}}]`)
}

// TestBatchLegThatFailsLeavesTheOthers is case 52 of the matrix.
func TestBatchLegThatFailsLeavesTheOthers(t *testing.T) {
	f := newFake(initializing("2025-03-26", obliging))
	f.refuse = func(m string) error {
		if gjson.Get(m, "method").String() == "tools/list" {
			return &upstream.Error{Op: "connect", Addr: "127.0.0.1:1", Err: errors.New("connection refused")}
		}
		return nil
	}
	srv := front(t, f)
	s := srv.initialize("2025-03-26")
	r := srv.post(s, `[`+pingOne+`,`+listTwo+`]`)
	if r.status != 200 {
		t.Errorf("status %d", r.status)
	}
	sameJSON(t, r.body, `[{"jsonrpc":"2.0","id":1,"result":{}},{"jsonrpc":"2.0","id":2,"error":{"code":-32603,"message":"upstream request failed: connection refused"}}]`)
}

func TestBatchRefusedAlikeTakesTheStatus(t *testing.T) {
	status := func(code int) error {
		return &upstream.StatusError{Code: code, Header: []upstream.Header{{Name: "WWW-Authenticate", Value: "Bearer x"}}}
	}
	for _, c := range []struct {
		first, second error
		want          int
	}{
		{status(401), status(401), 401},
		{nil, status(401), 401},
		{status(403), status(403), 403},
		{status(403), status(401), 401},
		{status(403), nil, 200},
		{status(403), status(429), 200},
	} {
		f := newFake(nil)
		f.answer = initializing("2025-03-26", func(m string) ([]string, error) {
			e := c.first
			if gjson.Get(m, "id").Int() == 2 {
				e = c.second
			}
			if e != nil {
				return nil, e
			}
			return obliging(m)
		})
		srv := front(t, f)
		s := srv.initialize("2025-03-26")
		r := srv.post(s, `[`+pingOne+`,`+listTwo+`]`)
		if r.status != c.want || c.want == 401 && r.header["WWW-Authenticate"] != "Bearer x" {
			t.Errorf("%v, %v: %+v", c.first, c.second, r)
		}
	}
}

func TestBatchStreamsWhenALegDoes(t *testing.T) {
	f := newFake(nil)
	f.answer = initializing("2025-03-26", func(m string) ([]string, error) {
		e, err := obliging(m)
		if gjson.Get(m, "id").Int() == 2 {
			e = append([]string{logLine}, e...)
		}
		return e, err
	})
	srv := front(t, f)
	s := srv.initialize("2025-03-26")
	r := srv.post(s, `[`+pingOne+`,`+listTwo+`,1]`)
	if len(r.events) != 4 {
		t.Fatalf("%+v", r)
	}
	at := map[string]int{}
	for i, e := range r.events {
		if strings.HasPrefix(e, "[") {
			t.Errorf("array in a stream: %s", e)
		}
		at[gjson.Get(e, "method").String()+gjson.Get(e, "id").Raw] = i
	}
	if at["2"] < at["notifications/message"] || len(at) != 4 {
		t.Errorf("%q", r.events)
	}
}

func TestCancelledLegIsLeftOut(t *testing.T) {
	for _, piped := range []bool{false, true} {
		f := newFake(nil)
		f.piped = piped
		f.answer = initializing("2025-03-26", func(m string) ([]string, error) {
			if gjson.Get(m, "method").String() == "tools/list" {
				if piped {
					return nil, nil
				}
				return one(hang)
			}
			return obliging(m)
		})
		srv := front(t, f)
		s := srv.initialize("2025-03-26")
		got := make(chan reply)
		go func() { got <- srv.post(s, `[`+pingOne+`,`+listTwo+`]`) }()
		eventually(t, "both sent", func() bool { return len(f.sent()) == 3 })
		if r := srv.post(s, `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":2}}`); r.status != 202 {
			t.Errorf("%+v", r)
		}
		sameJSON(t, (<-got).body, `[{"jsonrpc":"2.0","id":1,"result":{}}]`)
	}
}

func TestClientLeavingABatchEndsItsLegs(t *testing.T) {
	f := newFake(nil)
	f.answer = initializing("2025-03-26", func(string) ([]string, error) { return one(hang) })
	srv := front(t, f)
	s := srv.initialize("2025-03-26")
	ctx, leave := context.WithCancel(context.Background())
	done := make(chan reply)
	go func() { done <- srv.exchange(ctx, "POST", s, `[`+pingOne+`,`+listTwo+`]`) }()
	eventually(t, "both sent", func() bool { return len(f.sent()) == 3 })
	leave()
	<-done
}

// TestArrayFromTheServerIsTakenApart is case 54 of the matrix.
func TestArrayFromTheServerIsTakenApart(t *testing.T) {
	answer := `[` + logLine + `,{"jsonrpc":"2.0","id":1,"result":{"content":[]}}]`
	for _, piped := range []bool{false, true} {
		f := newFake(nil)
		f.piped = piped
		f.answer = initializing("2025-03-26", func(string) ([]string, error) { return one(answer) })
		srv := front(t, f)
		s := srv.initialize("2025-06-18")
		r := srv.post(s, `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"t"}}`)
		sameList(t, "events", r.events, []string{logLine, `{"jsonrpc":"2.0","id":1,"result":{"content":[]}}`})
	}
}

func TestArrayOfAServerMayHoldOtherAnswers(t *testing.T) {
	f := newFake(nil)
	f.answer = initializing("2025-03-26", func(string) ([]string, error) {
		return one(`[{"jsonrpc":"2.0","id":1,"result":{}},{"jsonrpc":"2.0","id":9,"result":{"tools":[{"name":"t","inputSchema":{},"annotations":{}}]}}]`)
	})
	srv := front(t, f)
	s := srv.initialize("2024-11-05")
	r := srv.post(s, pingOne)
	sameList(t, "events", r.events, []string{pingAnswer, `{"jsonrpc":"2.0","id":9,"result":{"tools":[{"name":"t","inputSchema":{}}]}}`})
}

const pingAnswer = `{"jsonrpc":"2.0","id":1,"result":{}}`
