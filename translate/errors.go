package translate

import "github.com/dragoman-proxy/dragoman/translate/wire"

// urlElicitationRequired is the error code of 2025-11-25 for a call that needs the user to open a URL first.
const urlElicitationRequired = "-32042"

// explainURLs turns the error that asks the user to open URLs into text: a result with isError for a tool, a
// plain error elsewhere (C22).
func explainURLs(x *pass, fault wire.Node) {
	code := fault.Get(wire.Code)
	if !code.OK() || string(code.Raw()) != urlElicitationRequired {
		return
	}
	x.moved(code, wire.Warn)                                                       // the text has the message and every URL
	if id := x.m.ID(); x.m.Method != wire.ToolsCall || id == nil || id[0] == 'n' { // a result needs an id
		code.Put(append(x.m.Writer(), "-32603"...))
		message := fault.Get(wire.MessageKey)
		if !message.OK() {
			return
		}
		w := append(x.m.Writer(), '"')
		message.Put(append(appendURLs(w, fault), '"'))
		return
	}
	w := append(x.m.Writer(), `"result":{"content":[{"type":"text","text":"`...)
	fault.Swap(append(appendURLs(w, fault), `"}],"isError":true}`...))
}

// appendURLs appends the error's message and a line for each URL, escaped for the inside of a JSON string.
func appendURLs(dst []byte, fault wire.Node) []byte {
	message, _ := fault.Get(wire.MessageKey).Text()
	dst = append(dst, message...)
	for e := elements(fault.Get(wire.Data).Get(wire.Elicitations)); e.OK(); e = e.Next() {
		why, _ := e.Get(wire.MessageKey).Text()
		link, _ := e.Get(wire.URL).Text()
		dst = append(append(dst, `\n- `...), why...)
		dst = append(append(dst, ": "...), link...)
	}
	return dst
}

// addNullID adds `id: null` to an error response without an id, which revisions up to 2025-06-18 require
// (C24).
func addNullID(x *pass, root wire.Node) {
	if x.m.ID() != nil {
		return
	}
	x.lost(root, wire.Debug)
	text := append(x.m.Writer(), `"id":null`...)
	if next := root.Get(wire.JSONRPC).Next(); next.OK() {
		next.Before(text)
	} else {
		root.Add(text)
	}
}

// removeNullID removes `id: null` from an error response (C24).
func removeNullID(x *pass, id wire.Node) {
	if id.Kind() == 'n' {
		x.lost(id, wire.Debug)
		id.Remove()
	}
}
