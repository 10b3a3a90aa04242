package tests

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/tidwall/gjson"

	"github.com/dragoman-proxy/dragoman/proxy/protocol/mcp"
	"github.com/dragoman-proxy/dragoman/proxy/transport/upstream"
)

const (
	pingOne  = `{"jsonrpc":"2.0","id":1,"method":"ping"}`
	listTwo  = `{"jsonrpc":"2.0","id":2,"method":"tools/list"}`
	listOne  = `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`
	changed  = `{"jsonrpc":"2.0","method":"notifications/roots/list_changed"}`
	logLine  = `{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":"x"}}`
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

// obligingly returns what an obliging server of 2025-06-18 sends.
func obligingly(m string) []string {
	if gjson.Get(m, "method").String() == "initialize" {
		return []string{result(gjson.Get(m, "id").Raw, `"protocolVersion":"2025-06-18","capabilities":{"tools":{}},"serverInfo":{"name":"s","version":"2"}`)}
	}
	all, _ := obliging(m)
	return all
}

func TestBatchThatIsNotClosed(t *testing.T) {
	srv := front(t, newFake(initializing("2025-06-18", obliging)))
	r := srv.post(srv.initialize("2025-03-26"), `[`+pingOne)
	if r.status != 400 || gjson.Get(r.body, "error.code").Int() != -32700 {
		t.Errorf("%+v", r)
	}
}

// TestBatchLegThatFailsLeavesTheOthers is case 52 of the matrix.
func TestBatchLegThatFailsLeavesTheOthers(t *testing.T) {
	f := newFake(initializing("2025-03-26", obliging))
	f.First = failing(func(m string) error {
		if gjson.Get(m, "method").String() == "tools/list" {
			return &upstream.Error{Op: "connect", Addr: "127.0.0.1:1", Err: errors.New("connection refused")}
		}
		return nil
	})
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
		return &upstream.StatusError{Code: code, Header: []mcp.Header{{Name: "WWW-Authenticate", Value: "Bearer x"}}}
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
		f.Script = initializing("2025-03-26", func(m string) ([]string, error) {
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

func TestClientLeavingABatchEndsItsLegs(t *testing.T) {
	f := newFake(nil)
	f.Script = initializing("2025-03-26", func(string) ([]string, error) { return one(hang) })
	srv := front(t, f)
	s := srv.initialize("2025-03-26")
	ctx, leave := context.WithCancel(context.Background())
	done := make(chan reply)
	go func() { done <- srv.exchange(ctx, "POST", s, `[`+pingOne+`,`+listTwo+`]`) }()
	eventually(t, "both sent", func() bool { return len(f.sent()) == 3 })
	leave()
	<-done
}

const pingAnswer = `{"jsonrpc":"2.0","id":1,"result":{}}`
