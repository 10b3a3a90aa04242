package translate

import (
	"strconv"

	"github.com/dragoman-proxy/dragoman/translate/wire"
)

// This file has the actions of rules between revisions with a handshake and revisions without one, as far as they
// need only the message itself. See
// https://modelcontextprotocol.io/specification/2026-07-28/basic/versioning.

// handOver leaves the message to the proxy, which answers it or translates it with the state of the session.
func handOver(x *pass, n wire.Node) {
	x.lost(n, wire.Debug)
	x.local = true
}

// answerEmpty answers the request with an empty result, instead of sending it to the receiver.
func answerEmpty(x *pass, n wire.Node) {
	x.lost(n, wire.Debug)
	x.answerResult("{}")
}

// dropQuietly drops a notification that means nothing in the other era; the loss is logged at debug level.
func dropQuietly(x *pass, n wire.Node) {
	x.lost(n, wire.Debug)
	x.verdict = wire.Drop
}

// remove removes a member that only the sender's era needs. The receiver misses nothing.
func remove(x *pass, n wire.Node) {
	x.lost(n, wire.Debug)
	n.Remove()
}

// rename replaces the request id by the receiver's.
func rename(x *pass, id wire.Node) {
	if s := x.m.Stamp; s != nil && s.ID != nil && id.Kind() != 'n' {
		id.Put(append(x.m.Writer(), s.ID...))
	}
}

// renameToken replaces the progress token by the receiver's.
func renameToken(x *pass, token wire.Node) {
	if s := x.m.Stamp; s != nil && s.ProgressToken != nil {
		token.Put(append(x.m.Writer(), s.ProgressToken...))
	}
}

// asked reports whether the method is one of the server's requests, which 2026-07-28 sends inside of results.
func asked(m wire.Method) bool {
	return m == wire.SamplingCreateMessage || m == wire.RootsList || m == wire.ElicitationCreate
}

// embed turns the server's request into a question of an InputRequiredResult: without id and `jsonrpc`. A
// client that did not declare the capability is not asked (C33).
func embed(x *pass, root wire.Node) {
	if facts := x.m.Facts; x.m.Method == wire.SamplingCreateMessage && !facts.Has(wire.ClientSampling) ||
		x.m.Method == wire.RootsList && !facts.Has(wire.ClientRoots) {
		methodNotFound(x, root)
		return
	}
	x.lost(root, wire.Debug)
	x.local = true
	if !root.Get(wire.Params).OK() {
		root.Add(append(x.m.Writer(), `"params":{}`...)) // published clients fail on a question without params
	}
	for c := root.First(); c.OK(); c = c.Next() {
		switch c.Name() {
		case wire.JSONRPC, wire.ID:
			c.Remove()
		case wire.Params:
			for meta := c.First(); meta.OK(); meta = meta.Next() {
				if meta.Name() != wire.Meta {
					continue
				}
				if x.m.Method != wire.RootsList {
					meta.Remove()
					continue
				}
				removeMembers(meta, func(name wire.Name) bool { return name == wire.ProgressTokenKey })
			}
		}
	}
}

// removeMembers removes the members that which selects, and the object itself if none is left. It reports whether
// it removed any.
func removeMembers(n wire.Node, which func(wire.Name) bool) bool {
	gone, kept := false, false
	if n.Kind() == '{' {
		for c := n.First(); c.OK(); c = c.Next() {
			if which(c.Name()) {
				c.Remove()
				gone = true
			} else {
				kept = true
			}
		}
	}
	if gone && !kept {
		n.Remove()
	}
	return gone
}

// unstamp removes the `_meta` members by which messages of 2026-07-28 name revision, peer and subscription
// (C31, C32, C34).
func unstamp(x *pass, meta wire.Node) {
	if removeMembers(meta, isStamp) {
		x.lost(meta, wire.Debug)
	}
}

func isStamp(name wire.Name) bool {
	return wire.MetaProtocolVersion <= name && name <= wire.MetaSubscriptionID
}

// stampRequest adds the revision, the client's name and version, and its capabilities to `_meta` (C31).
func stampRequest(x *pass, root wire.Node) {
	if x.local || asked(x.m.Method) {
		return
	}
	s := x.m.Stamp
	version := append(append(append(make([]byte, 0, 16), '"'), x.t.to.Name...), '"')
	marks := [...]stampMark{
		{wire.MetaProtocolVersion, version, nil},
		{wire.MetaClientCapabilities, nil, []byte("{}")},
		{wire.MetaClientInfo, nil, nil},
		{wire.MetaLogLevel, nil, nil},
	}
	if s != nil {
		marks[1].value, marks[2].value, marks[3].value = s.Capabilities, s.ClientInfo, s.LogLevel
	}
	x.lost(root, wire.Debug)
	x.stamp(root.Get(wire.Params), root, `"params":{"_meta":{`, marks[:])
}

// stampResult adds the server's name and version to `_meta` (C32).
func stampResult(x *pass, result wire.Node) {
	if x.m.Stamp == nil || x.m.Stamp.ServerInfo == nil || asked(x.m.Method) || x.m.Method == wire.Initialize {
		return
	}
	x.lost(result, wire.Debug)
	marks := [...]stampMark{{name: wire.MetaServerInfo, least: x.m.Stamp.ServerInfo}}
	x.stamp(result, wire.Node{}, "", marks[:])
}

// stampNotification adds the id of the subscription to which a notification belongs (C34).
func stampNotification(x *pass, root wire.Node) {
	if x.m.Stamp == nil || x.m.Stamp.Subscription == nil {
		return
	}
	x.lost(root, wire.Debug)
	marks := [...]stampMark{{name: wire.MetaSubscriptionID, value: x.m.Stamp.Subscription}}
	x.stamp(root.Get(wire.Params), root, `"params":{"_meta":{`, marks[:])
}

// stampMark is one reserved member of _meta. If value is not nil, the member gets it. Otherwise a missing member
// gets least.
type stampMark struct {
	name  wire.Name
	value []byte
	least []byte
}

// stamp writes marks into the _meta of object and creates a missing _meta. If object itself is missing, stamp adds
// it to outer; open is then the beginning of that member, up to the members of _meta.
func (x *pass) stamp(object, outer wire.Node, open string, marks []stampMark) {
	meta := object.Get(wire.Meta)
	if meta.OK() && meta.Kind() == '{' {
		for i := range marks {
			x.mark(meta, &marks[i])
		}
		return
	}
	w := x.m.Writer()
	switch {
	case meta.OK(): // it is not an object, and is replaced
		w = append(w, '{')
	case object.OK():
		w = append(w, `"_meta":{`...)
	default:
		w = append(w, open...)
	}
	for i := range marks {
		if marks[i].text() == nil {
			continue
		}
		w = wire.Comma(w)
		w = marks[i].append(w)
	}
	if w = append(w, '}'); meta.OK() {
		meta.Put(w)
	} else if object.OK() {
		object.Add(w)
	} else {
		outer.Add(append(w, '}'))
	}
}

// mark writes one mark into _meta. It replaces a member that the sender wrote, or removes it if the mark has no
// value, because only this process may speak for the other end. The member stays if the mark has only a least
// value, or if the message has no Stamp.
func (x *pass) mark(meta wire.Node, m *stampMark) {
	there := false
	for c := meta.First(); c.OK(); c = c.Next() {
		switch {
		case c.Name() != m.name:
		case m.value != nil:
			there = true
			c.Put(append(x.m.Writer(), m.value...))
		case m.least != nil || x.m.Stamp == nil:
			there = true
		default:
			c.Remove()
		}
	}
	if !there && m.text() != nil {
		meta.Add(m.append(x.m.Writer()))
	}
}

func (m *stampMark) text() []byte {
	if m.value != nil {
		return m.value
	}
	return m.least
}

func (m *stampMark) append(dst []byte) []byte {
	dst = append(append(append(dst, '"'), m.name.String()...), `":`...)
	return append(dst, m.text()...)
}

// addContent adds empty content to a result that has none. Older revisions require it too, but their clients read results without it (C29).
func addContent(x *pass, result wire.Node) {
	if result.Get(wire.Content).OK() || result.Get(wire.ResultType).OK() || result.Get(wire.Task).OK() {
		return
	}
	x.lost(result, wire.Debug)
	result.Add(append(x.m.Writer(), `"content":[]`...))
}

// addResultType adds `resultType: complete` (C29).
func addResultType(x *pass, result wire.Node) {
	if asked(x.m.Method) || x.m.Method == wire.Initialize || result.Get(wire.ResultType).OK() {
		return
	}
	x.lost(result, wire.Debug)
	if x.m.Method == wire.ToolsCall && result.Get(wire.Task).Changed() { // by flattenTask
		result.Add(append(x.m.Writer(), `"resultType":"task"`...))
		return
	}
	result.Add(append(x.m.Writer(), `"resultType":"complete"`...))
}

// readResultType removes `resultType: complete`, hands a result with `input_required` to the proxy, and replaces
// a result of an unknown type with an error (C29).
func readResultType(x *pass, root wire.Node) {
	result := root.Get(wire.ResultKey)
	kind := result.Get(wire.ResultType)
	if !kind.OK() || asked(x.m.Method) || result.Changed() {
		return
	}
	level := wire.Debug
	if !kind.Is("complete") && !kind.Is("input_required") {
		level = wire.Warn // the client gets no result
	}
	x.lost(kind, level)
	switch {
	case kind.Is("complete"):
		for c := result.First(); c.OK(); c = c.Next() {
			if c.Name() == wire.ResultType {
				c.Remove()
			}
		}
	case kind.Is("input_required"):
		x.verdict = wire.Local
		x.dst = append(x.dst, x.m.Raw...)
	default:
		w := append(x.m.Writer(), `"error":{"code":-32603,"message":"Unsupported result type: `...)
		if text, ok := kind.Text(); ok {
			w = append(w, text...)
		} else {
			w = wire.AppendCompactQuoted(w, kind.Raw())
		}
		result.Swap(append(w, `"}`...))
	}
}

// addCacheHints sets `ttlMs` to the setting `bridge.ttl` and `cacheScope` to private. It overwrites members of
// these names from an older server, whose revision gives them no meaning (C30).
func addCacheHints(x *pass, result wire.Node) {
	var ttl int64
	if s := x.m.Stamp; s != nil {
		ttl = s.TTL
	}
	x.lost(result, wire.Debug)
	if at := result.Get(wire.TTLMs); at.OK() {
		at.Put(strconv.AppendInt(x.m.Writer(), ttl, 10))
	} else {
		result.Add(strconv.AppendInt(append(x.m.Writer(), `"ttlMs":`...), ttl, 10))
	}
	if at := result.Get(wire.CacheScope); at.OK() {
		at.Put(append(x.m.Writer(), `"private"`...))
	} else {
		result.Add(append(x.m.Writer(), `"cacheScope":"private"`...))
	}
}

// removeEmptyCursor removes an empty `nextCursor`: it ended the list, and since 2026-07-28 it says that more follows
// (C43).
func removeEmptyCursor(x *pass, cursor wire.Node) {
	if cursor.Is("") {
		remove(x, cursor)
	}
}

// keepEmptyCursor keeps an empty `nextCursor`. Clients of older revisions take it for the end of the list and do not get the
// pages behind it (C43).
func keepEmptyCursor(x *pass, cursor wire.Node) {
	if cursor.Is("") {
		x.lost(cursor, wire.Warn)
	}
}

// nameURL adds an `elicitationId` to a URL elicitation, which 2025-11-25 requires (C18).
func nameURL(x *pass, params wire.Node) {
	if !params.Get(wire.Mode).Is("url") || params.Get(wire.ElicitationID).OK() {
		return
	}
	x.lost(params, wire.Debug)
	w := append(x.m.Writer(), `"elicitationId":`...)
	switch s := x.m.Stamp; {
	case s != nil && s.ElicitationID != nil:
		w = append(w, s.ElicitationID...)
	case x.m.ID()[0] == '"':
		w = append(w, x.m.ID()...)
	default:
		w = append(append(append(w, '"'), x.m.ID()...), '"')
	}
	params.Add(w)
}

// removeTasksExtension removes the tasks extension from the declared ones, and the member `extensions` where
// it was the only one (C28).
func removeTasksExtension(x *pass, extensions wire.Node) {
	level := wire.Warn
	if x.m.Kind == wire.Result && x.carriesTasks() {
		if x.t.to.Modern {
			return
		}
		level = wire.Debug // declareTasks has declared the capability tasks instead
	}
	if removeMembers(extensions, func(name wire.Name) bool { return name == wire.TasksExtension }) {
		x.lost(extensions, level)
	}
}

// stripUnlessObject removes a schema whose type is not object: no other was allowed before 2026-07-28 (C03).
func stripUnlessObject(x *pass, schema wire.Node) {
	if schema.Kind() != '{' || !schema.Get(wire.Type).Is("object") {
		strip(x, schema)
	}
}

// structuredUnlessObject turns structured content that is not an object into a text block, and removes it
// (C04).
func structuredUnlessObject(x *pass, structured wire.Node) {
	if structured.Kind() != '{' {
		structuredToText(x, structured)
	}
}

// toolResultUnlessObject turns structured content of a tool_result block into text, unless it is an object (C04).
func toolResultUnlessObject(x *pass, structured wire.Node) {
	if structured.Parent().Get(wire.Type).Is("tool_result") {
		structuredUnlessObject(x, structured)
	}
}

// booleanToSchema writes a boolean schema as the object that means the same (C25).
func booleanToSchema(x *pass, schema wire.Node) {
	switch schema.Kind() {
	case 't':
		x.moved(schema, wire.Info)
		schema.Put(append(x.m.Writer(), "{}"...))
	case 'f':
		x.moved(schema, wire.Info)
		schema.Put(append(x.m.Writer(), `{"not":{}}`...))
	}
}

// Error codes that differ between the eras
// (https://modelcontextprotocol.io/specification/2026-07-28/basic#error-codes).
const (
	notFoundCode   = "-32002"
	invalidParams  = "-32602"
	internalError  = "-32603"
	headerMismatch = "-32020" // -32021 is a missing capability, -32022 an unsupported version
)

func hasCode(fault wire.Node, codes ...string) (code wire.Node, ok bool) {
	code = fault.Get(wire.Code)
	for _, c := range codes {
		if code.OK() && string(code.Raw()) == c {
			return code, true
		}
	}
	return code, false
}

// handOverURLs leaves the error that asks the user to open URLs to the proxy, which asks the client (C22).
func handOverURLs(x *pass, fault wire.Node) {
	if _, ok := hasCode(fault, urlElicitationRequired); ok {
		handOver(x, fault)
	}
}

// notFoundAsParams changes -32002 about a missing resource to -32602, which names it (C22).
func notFoundAsParams(x *pass, fault wire.Node) {
	code, ok := hasCode(fault, notFoundCode)
	if !ok {
		return
	}
	x.lost(code, wire.Debug)
	code.Put(append(x.m.Writer(), invalidParams...))
	if x.m.Method != wire.ResourcesRead || len(x.m.Note) == 0 {
		return
	}
	switch data := fault.Get(wire.Data); {
	case !data.OK():
		fault.Add(append(append(append(x.m.Writer(), `"data":{"uri":`...), x.m.Note...), '}'))
	case data.Kind() == '{' && !data.Get(wire.URI).OK():
		data.Add(append(append(x.m.Writer(), `"uri":`...), x.m.Note...))
	}
}

// paramsAsNotFound changes -32602 about a missing resource to -32002, which names it (C22).
func paramsAsNotFound(x *pass, fault wire.Node) {
	code, ok := hasCode(fault, invalidParams)
	if _, named := fault.Get(wire.Data).Get(wire.URI).Text(); ok && named {
		x.lost(code, wire.Debug)
		code.Put(append(x.m.Writer(), notFoundCode...))
	}
}

// eraErrorAsInternal changes error codes that revisions with a handshake do not have to -32603 (C22).
func eraErrorAsInternal(x *pass, fault wire.Node) {
	if code, ok := hasCode(fault, headerMismatch, "-32021", "-32022"); ok {
		x.lost(code, wire.Debug)
		code.Put(append(x.m.Writer(), internalError...))
	}
}

// noteURI keeps the URI of the requested resource for the error that a missing resource causes (C22).
func noteURI(x *pass, uri wire.Node) {
	if uri.Kind() == '"' && len(uri.Raw()) <= wire.MaxNote {
		x.m.Note = append([]byte(nil), uri.Raw()...)
	}
}
