package mcp

import (
	"testing"

	"github.com/dragoman-proxy/dragoman/translate/wire"
)

func TestMessagesThatDragomanWrites(t *testing.T) {
	for _, c := range []struct {
		got  []byte
		want string
		kind wire.Kind
	}{
		{Request("1", wire.ToolsList, ""), `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`, wire.Request},
		{Request([]byte(`"a"`), wire.Ping, []byte(`{}`)), `{"jsonrpc":"2.0","id":"a","method":"ping","params":{}}`, wire.Request},
		{
			Initialize("0", `x"y`, `{}`, Us),
			`{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"x\"y","capabilities":{},"clientInfo":{"name":"dragoman","version":"1"}}}`, wire.Request,
		},
		{Notification(wire.Initialized, ""), `{"jsonrpc":"2.0","method":"notifications/initialized"}`, wire.Notification},
		{Cancelled("7", ""), `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":7}}`, wire.Notification},
		{Cancelled([]byte(`"7"`), `it "left"`), `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"7","reason":"it \"left\""}}`, wire.Notification},
		{AppendResult(nil, []byte("2"), []byte(`{"a":1}`)), `{"jsonrpc":"2.0","id":2,"result":{"a":1}}`, wire.Result},
		{AppendError(nil, nil, -32600, "no", []byte(`[]`)), `{"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"no","data":[]}}`, wire.Error},
		{AppendErrorAs(nil, []byte("3"), `{"code":1,"message":"m"}`), `{"jsonrpc":"2.0","id":3,"error":{"code":1,"message":"m"}}`, wire.Error},
	} {
		var m wire.Message
		if string(c.got) != c.want || m.Scan(c.got, nil) != nil || m.Kind != c.kind {
			t.Errorf("%s\nwant %s", c.got, c.want)
		}
	}
}
