package exchange

import (
	"bytes"
	"context"
	"strings"

	"github.com/tidwall/gjson"
	"go.uber.org/zap"

	"github.com/dragoman-proxy/dragoman/proxy/features/owntools"
	"github.com/dragoman-proxy/dragoman/proxy/observe"
	"github.com/dragoman-proxy/dragoman/proxy/ops/report"
	"github.com/dragoman-proxy/dragoman/proxy/protocol/mcp"
	"github.com/dragoman-proxy/dragoman/proxy/transport/upstream"
	"github.com/dragoman-proxy/dragoman/translate/wire"
)

// claim makes dragoman answer x's request itself if the catalog of its own tools claims it.
func (x *Exchange) claim(m *wire.Message) {
	own := x.Common.Now().OwnFor(&x.Sender)
	if own == nil || m.Method != wire.ToolsCall && m.Method != wire.ToolsList {
		return
	}
	if x.emptyCursor = owntools.LeadsOn(m); x.emptyCursor {
		return
	}
	if r := own.Claim(m, x.Crossing.Sent(m.ID()), x.Session.Facts.Has(wire.ServerTools), view{x}); r != nil {
		x.answerHere(r)
	}
}

// answerHere makes dragoman answer x's request itself.
func (x *Exchange) answerHere(r *owntools.Request) {
	x.OwnCall = r
	x.Seen.Note(observe.Note{By: observe.OwnTools, What: "answered", Detail: "dragoman answers, not the server"})
	if x.Stop == nil { // on a pipe to the server a request has no context of its own
		x.Ctx, x.Stop = context.WithCancelCause(x.Ctx)
	}
}

// startHere returns the stream of the request that dragoman answers itself.
func (x *Exchange) startHere() upstream.Stream {
	asked := x.Session.Asked
	return x.OwnCall.Start(x.Ctx, func(key []byte) { asked.Take(key) })
}

// listAlone answers tools/list with dragoman's own tools only, if err says that the server cannot
// be reached. It returns false if err says something else, or if the request asks for a later page.
func (x *Exchange) listAlone(body []byte, err error) bool {
	own := x.Common.Now().OwnFor(&x.Sender)
	if own == nil || x.Call == nil || x.Call.Method != wire.ToolsList || !report.Unreachable(err) {
		return false
	}
	if x.Session.ClientRevision.HasCursor(gjson.GetBytes(body, "params.cursor").Raw) {
		return false
	}
	if x.Session.Piped && x.Session.Open.Unique && !x.Session.Open.End(x.Call) {
		return false // the failure of the pipe has already answered it
	}
	x.Common.Host.Report.FailedAs("the server's tools are missing from the list", err, x.At())
	x.answerHere(own.Alone([]byte(x.Call.ID), view{x}))
	return true
}

// receiveAnswer receives the client's answer to one of dragoman's own questions, and reports
// whether m is one. Such answers never go to the server, also when nothing waits for them any more.
func (x *Exchange) receiveAnswer(m *wire.Message) bool {
	if x.Common.Now().Own == nil || !owntools.IsAnswer(m) {
		return false
	}
	x.key = wire.AppendIDKey(x.key[:0], m.ID())
	if c := x.Session.Asked.Take(x.key); c != nil && c.More.Answers != nil {
		x.Met = c
		c.More.Answers <- bytes.Clone(m.Raw) // the buffer has room, as only one question is open
	} else {
		x.Common.Host.Report.UnknownResponse(x.firstUnknown(), x.At(), m)
	}
	x.observeAnswer(m)
	return true
}

// withOurs adds dragoman's own tools to the server's response to tools/list.
func (x *Exchange) withOurs(page []byte, method wire.Method) []byte {
	own := x.Common.Now().OwnFor(&x.Sender)
	if own == nil || method != wire.ToolsList {
		return page
	}
	var clashing []string
	out := own.Extend(page, x.Session.ClientRevision, x.Session.ServerRevision, func(name string) {
		if x.Common.Now().Collides(own.Of(name)) {
			clashing = append(clashing, name)
		} else {
			x.Common.noteCollision(name)
		}
	})
	if clashing != nil {
		out = x.hideCollisions(page, clashing)
	}
	return x.own(out, page)
}

// noteCollision counts that a server's tool was hidden, since an own tool has its name. It logs
// each name once.
func (all *Common) noteCollision(name string) {
	all.Metrics.Shadowed.WithLabelValues(name).Inc()
	if _, seen := all.shadows.LoadOrStore(name, true); !seen {
		all.Host.Log.Warn("a server tool has the name of an adapter tool: clients get the adapter tool", zap.String("tool", name))
	}
}

// hideCollisions returns an error in place of a page of the server's tools on which a tool has the
// name of an adapter's tool. There was no collision when the session began.
func (x *Exchange) hideCollisions(page []byte, names []string) []byte {
	for _, name := range names {
		x.Common.Metrics.Shadowed.WithLabelValues(name).Inc()
	}
	x.Common.Host.Log.Warn("adapter tool names collide with server tools", zap.Strings("tools", names))
	f := mcp.Fail(mcp.ToolNameCollision, strings.Join(names, ", "))
	var m wire.Message
	if m.Scan(page, nil) != nil {
		return page
	}
	return mcp.AppendError(nil, m.ID(), f.Code, f.Text, nil) // the client's id, which may differ from the server's
}

// slimmed returns a response to tools/list with its tools reduced as the configuration says. page
// is in the client's revision.
func (x *Exchange) slimmed(page []byte) []byte {
	return x.own(x.Session.Catalogue.Slim(page, x.Session.ClientRevision, x.Common.Now().Footprint, &x.Common.ToolsSize, x.log), page)
}
