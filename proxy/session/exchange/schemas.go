package exchange

import (
	"context"
	"slices"
	"time"

	"github.com/tidwall/gjson"
	"go.uber.org/zap"

	"github.com/dragoman-proxy/dragoman/proxy/features/gate"
	"github.com/dragoman-proxy/dragoman/proxy/protocol/toolindex"
	"github.com/dragoman-proxy/dragoman/translate/wire"
)

// schemaTime is how long the server may take to list its tools while a call waits for the list.
const schemaTime = 2 * time.Second

// learn asks the server for its tools if the client calls one that is not known yet: the tool's
// outputSchema must be known before its result is cut. If the server does not answer, structured content
// is not cut.
func (x *Exchange) learn(m *wire.Message) {
	if !x.learns(m) {
		return
	}
	ctx, cancel := context.WithTimeout(x.Ctx, schemaTime)
	defer cancel()
	ask := toolindex.Ask{Of: x.Session.ServerRevision, Page: func(params string) ([]byte, error) { return x.askServer(ctx, wire.ToolsList, params) }}
	if _, err := x.Session.Tools.Look(ctx, x.Call.More.Wanted.Tool, ask); err != nil {
		x.log().Debug("cannot read the server's tools: their structured content is not shortened", zap.Error(err))
	}
}

// learns reports whether cutting the result of the call m needs the tool's entry in the server's list.
func (x *Exchange) learns(m *wire.Message) bool {
	return m.Method == wire.ToolsCall && x.Call != nil && x.Session.ServerRevision.Structured && x.Session.ClientRevision.Structured &&
		x.Session.Facts.Has(wire.ServerTools) && x.Call.More.Wanted.NeedsSchema()
}

// Waits reports whether x's message is a call that must wait before it is sent: for the
// server's answer to a gate's question, or for the server's list of tools.
func (x *Exchange) Waits() bool {
	m := &x.Msg
	if m.Kind != wire.Request || m.Method != wire.ToolsCall || x.OwnCall != nil {
		return false
	}
	tool := gjson.Get(wire.View(m.Params()), "name").Str
	if slices.ContainsFunc(x.Common.Now().Gates, func(g gate.Gate) bool { return g.Tool == tool }) {
		return true
	}
	if _, known := x.Session.Tools.Find(tool); !known && x.learns(m) {
		return true
	}
	return !x.Session.CanCall(tool)
}

// noteTools notes the tools on a page of the server's list, for later calls. raw is the response as the
// server sent it.
func (x *Exchange) noteTools(raw []byte) {
	if x.OwnCall == nil && x.Session.Direct == nil && (x.Common.Now().Shaping != nil || x.Crossing != nil) {
		x.Session.Tools.Learn(raw, zap.NewNop()) // no log: a wrong annotation fails only the calls of that tool
	}
}
