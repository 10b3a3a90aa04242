package corpus

import "github.com/dragoman-proxy/dragoman/translate/wire"

// failures adds the errors that servers and clients answer with.
func (w *writer) failures() {
	s := newSource("failures")
	w.fail("error_urls", server, wire.ToolsCall, 40, object{"code", -32042, "message", "This request requires more information.", "data", object{"elicitations", list{
		object{"mode", "url", "elicitationId", "e-2", "url", "https://example.com/connect?state=78", "message", "Please sign in to Example"},
		object{"mode", "url", "elicitationId", "e-3", "url", "https://example.com/pay", "message", "Please confirm the payment"},
	}}})
	w.fail("error_not_found", server, wire.ResourcesRead, 41, object{"code", -32002, "message", "Resource not found", "data", object{"uri", "demo://no/such"}})
	w.fail("error_arguments", server, wire.PromptsGet, "p-42", object{"code", -32602, "message", s.line(90)})
	w.fail("error_method", server, wire.ToolsCall, 43, object{"code", -32601, "message", "Method not found"})
	w.fail("error_no_id", server, wire.OtherMethod, nil, object{"code", -32700, "message", "Parse error"})
	w.fail("error_refused", client, wire.SamplingCreateMessage, 44, object{"code", -1, "message", "User rejected sampling request"})
}
