package main

import (
	"fmt"

	"github.com/tidwall/gjson"

	"github.com/dragoman-proxy/dragoman/bench/corpus"
)

// The kinds of calls, as indexes into works.
const (
	small = iota
	toolList
	large
	streamed // a small call whose answer comes as an event stream, after notifications
)

// work is one kind of call.
type work struct {
	name    string
	request []byte
	sign    []byte   // a text that is in this request and in no other
	answer  []byte   // of the server
	notices [][]byte // messages of the server before its answer; nil for an answer that is no event stream
	warm    int      // calls per connection that are not measured
}

// works returns the calls that are measured. An answer has the id of its request.
func works() ([]work, error) {
	messages, err := serverMessages()
	if err != nil {
		return nil, err
	}
	list := []work{
		small:    {name: "small call", warm: 50, sign: []byte(`"name":"small"`)},
		toolList: {name: "list of 50 tools", warm: 10, sign: []byte(`"tools/list"`)},
		large:    {name: "result of 1 MB", warm: 3, sign: []byte(`"name":"large"`)},
		streamed: {name: "event stream", warm: 50, sign: []byte(`"name":"streamed"`), notices: notices(3)},
	}
	for i, name := range []string{small: "call_result", toolList: "tools_list_50", large: "call_text_1MiB", streamed: "call_result"} {
		m := corpus.Find(messages, name)
		if m == nil {
			return nil, fmt.Errorf("the corpus has no %s", name)
		}
		id := gjson.GetBytes(m.Raw, "id").Raw
		list[i].answer = m.Raw
		if i == toolList {
			list[i].request = fmt.Appendf(nil, `{"jsonrpc":"2.0","id":%s,"method":"tools/list","params":{}}`, id)
			continue
		}
		list[i].request = fmt.Appendf(nil, `{"jsonrpc":"2.0","id":%s,"method":"tools/call","params":{%s,"arguments":{"query":"what the weather will be","limit":20}}}`, id, list[i].sign)
	}
	return list, nil
}

// notices returns n log messages of a server.
func notices(n int) (list [][]byte) {
	for i := range n {
		list = append(list, fmt.Appendf(nil, `{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","logger":"compare","data":"step %d of %d"}}`, i+1, n))
	}
	return list
}
