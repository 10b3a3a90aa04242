package translate_test

import (
	"errors"
	"fmt"

	"github.com/dragoman-proxy/dragoman/translate"
	"github.com/dragoman-proxy/dragoman/translate/wire"
)

// ExampleTable_NewAdapter: a client of 2024-11-05 lists the tools of a server of 2025-06-18.
func ExampleTable_NewAdapter() {
	table, err := translate.NewTable(translate.Options{})
	if err != nil {
		panic(err)
	}
	a := table.NewAdapter(translate.Lookup("2024-11-05"), translate.Lookup("2025-06-18"), 0)

	request, err := a.TranslateRequest([]byte(`{"jsonrpc":"2.0","id":1,"method":"tools/list"}`))
	fmt.Println(string(request.Message), err)

	response, err := a.TranslateResponse([]byte(`{"jsonrpc":"2.0","id":1,"result":{"tools":[{"name":"add","title":"Add","inputSchema":{"type":"object"}}]}}`), wire.ToolsList)
	fmt.Println(string(response.Message), err)
	for _, l := range response.Losses {
		fmt.Println(l.Level, l.Rule, l.Path)
	}
	// Output:
	// {"jsonrpc":"2.0","id":1,"method":"tools/list"} <nil>
	// {"jsonrpc":"2.0","id":1,"result":{"tools":[{"name":"add","inputSchema":{"type":"object"}}]}} <nil>
	// WARN C01 result.tools[0].title
}

// ExampleProtocolError reads what an error says.
func ExampleProtocolError() {
	table, err := translate.NewTable(translate.Options{ResourceContentsName: "strict"})
	if err != nil {
		panic(err)
	}
	a := table.NewAdapter(translate.Lookup("2025-06-18"), translate.Lookup("2024-11-05"), 0)

	_, err = a.TranslateResponse([]byte(`{"jsonrpc":"2.0","id":1,"result":{"contents":[{"uri":"","text":"hello"}]}}`), wire.ResourcesRead)
	fmt.Println(err)
	if failed, ok := errors.AsType[*translate.ProtocolError](err); ok {
		fmt.Println(errors.Is(err, translate.ErrMissingRequiredField), failed.From, failed.To, failed.Method, failed.Path)
	}
	// Output:
	// MissingRequiredField (2024-11-05 to 2025-06-18, resources/read, result.contents[0]): MissingRequiredField{name, ResourceContents}
	// true 2024-11-05 2025-06-18 resources/read result.contents[0]
}

// noPings translates as another adapter does, and answers pings itself.
type noPings struct{ translate.ProtocolAdapter }

func (a noPings) TranslateRequest(request []byte) (translate.Translated, error) {
	var m wire.Message
	if err := m.Scan(request, nil); err == nil && m.Method == wire.Ping {
		return translate.Translated{Reply: fmt.Appendf(nil, `{"jsonrpc":"2.0","id":%s,"result":{}}`, m.ID())}, nil
	}
	return a.ProtocolAdapter.TranslateRequest(request)
}

// ExampleProtocolAdapter is an adapter of another package.
func ExampleProtocolAdapter() {
	table, err := translate.NewTable(translate.Options{})
	if err != nil {
		panic(err)
	}
	var a translate.ProtocolAdapter = noPings{table.NewAdapter(translate.Lookup("2025-03-26"), translate.Lookup("2025-11-25"), 0)}

	for _, request := range []string{`{"jsonrpc":"2.0","id":1,"method":"ping"}`, `{"jsonrpc":"2.0","id":2,"method":"tools/list"}`} {
		got, err := a.TranslateRequest([]byte(request))
		fmt.Printf("to the server: %s, to the client: %s, %v\n", got.Message, got.Reply, err)
	}
	// Output:
	// to the server: , to the client: {"jsonrpc":"2.0","id":1,"result":{}}, <nil>
	// to the server: {"jsonrpc":"2.0","id":2,"method":"tools/list"}, to the client: , <nil>
}
