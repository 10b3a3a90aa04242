package proxy

import (
	"context"
	"slices"
	"time"

	"github.com/tidwall/gjson"
	"go.uber.org/zap"

	"github.com/dragoman-proxy/dragoman/proxy/gate"
	"github.com/dragoman-proxy/dragoman/proxy/toolindex"
	"github.com/dragoman-proxy/dragoman/translate/wire"
)

// schemaTime is how long the server may take to list its tools while a call waits for the list.
const schemaTime = 2 * time.Second

// learn asks the server for its tools if the client calls one that is not known yet: the tool's
// outputSchema must be known before its result is cut. If the server does not answer, structured content
// is not cut.
func (x *exchange) learn(m *wire.Message) {
	if !x.learns(m) {
		return
	}
	ctx, cancel := context.WithTimeout(x.ctx, schemaTime)
	defer cancel()
	if _, err := x.s.Tools.Look(ctx, x.call.More.Wanted.Tool, func(params string) ([]byte, error) { return x.askServer(ctx, wire.ToolsList, params) }); err != nil {
		x.log().Debug("cannot read the server's tools: their structured content is not shortened", zap.Error(err))
	}
}

// learns reports whether cutting the result of the call m needs the tool's entry in the server's list.
func (x *exchange) learns(m *wire.Message) bool {
	return m.Method == wire.ToolsCall && x.call != nil && x.s.ServerRevision.Structured && x.s.ClientRevision.Structured &&
		x.s.Facts.Has(wire.ServerTools) && x.call.More.Wanted.NeedsSchema()
}

// waits reports whether x's message is a call that must wait before it is sent: for the
// server's answer to a gate's question, or for the server's list of tools.
func (x *exchange) waits() bool {
	m := &x.msg
	if m.Kind != wire.Request || m.Method != wire.ToolsCall || x.ownCall != nil {
		return false
	}
	tool := gjson.Get(wire.View(m.Params()), "name").Str
	if slices.ContainsFunc(x.srv.Now().Gates, func(g gate.Gate) bool { return g.Tool == tool }) {
		return true
	}
	if _, known := x.s.Tools.Find(tool); !known && x.learns(m) {
		return true
	}
	conn, ok := x.s.Conn.(interface{ knows(tool string) bool })
	return ok && !conn.knows(tool)
}

// tool returns what is known of a tool that x's client may call.
func (x *exchange) tool(name string) (t toolindex.Tool) {
	if own := x.srv.Now().OwnFor(&x.sender); x.ownCall != nil && own != nil {
		t, _ = own.Find(name)
	} else {
		t, _ = x.s.Tools.Find(name)
	}
	return t
}

// noteTools notes the tools on a page of the server's list, for later calls. raw is the response as the
// server sent it.
func (x *exchange) noteTools(raw []byte) {
	if x.ownCall == nil && x.s.Direct == nil && (x.srv.Now().Shaping != nil || x.crossing != nil) {
		x.s.Tools.Learn(raw, zap.NewNop()) // no log: a wrong annotation fails only the calls of that tool
	}
}
