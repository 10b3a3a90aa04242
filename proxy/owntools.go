package proxy

import (
	"bytes"
	"context"

	"github.com/tidwall/gjson"
	"go.uber.org/zap"

	"github.com/dragoman-proxy/dragoman/proxy/clienterror"
	"github.com/dragoman-proxy/dragoman/proxy/observe"
	"github.com/dragoman-proxy/dragoman/proxy/owntools"
	"github.com/dragoman-proxy/dragoman/proxy/upstream"
	"github.com/dragoman-proxy/dragoman/translate/wire"
)

// claim makes dragoman answer x's request itself if the catalog of its own tools claims it.
func (x *exchange) claim(m *wire.Message) {
	own := x.srv.Now().OwnFor(&x.sender)
	if own == nil || m.Method != wire.ToolsCall && m.Method != wire.ToolsList {
		return
	}
	if r := own.Claim(m, x.crossing.Sent(m.ID()), x.s.Facts.Has(wire.ServerTools), (*exchangeView)(x)); r != nil {
		x.answerHere(r)
	}
}

// answerHere makes dragoman answer x's request itself.
func (x *exchange) answerHere(r *owntools.Request) {
	x.ownCall = r
	x.seen.Note(observe.Note{By: observe.OwnTools, What: "answered", Detail: "dragoman answers, not the server"})
	if x.stop == nil { // on a pipe to the server a request has no context of its own
		x.ctx, x.stop = context.WithCancelCause(x.ctx)
	}
}

// startHere returns the stream of the request that dragoman answers itself.
func (x *exchange) startHere() upstream.Stream {
	asked := x.s.Asked
	return x.ownCall.Start(x.ctx, func(key []byte) { asked.Take(key) })
}

// listAlone answers tools/list with dragoman's own tools only, if err says that the server cannot
// be reached. It returns false if err says something else, or if the request asks for a later page.
func (x *exchange) listAlone(body []byte, err error) bool {
	own := x.srv.Now().OwnFor(&x.sender)
	if own == nil || x.call == nil || x.call.Method != wire.ToolsList || !clienterror.Unreachable(err) {
		return false
	}
	if owntools.HasCursor([]byte(gjson.GetBytes(body, "params").Raw)) {
		return false
	}
	if x.s.Piped && x.s.Open.Unique && !x.s.Open.End(x.call) {
		return false // the failure of the pipe has already answered it
	}
	x.srv.Host.Report.FailedAs("the server's tools are missing from the list", err, x.requestInfo())
	x.answerHere(own.Alone([]byte(x.call.ID), (*exchangeView)(x)))
	return true
}

// receiveAnswer receives the client's answer to one of dragoman's own questions, and reports
// whether m is one. Such answers never go to the server, also when nothing waits for them any more.
func (x *exchange) receiveAnswer(m *wire.Message) bool {
	if x.srv.Now().Own == nil || !owntools.IsAnswer(m) {
		return false
	}
	x.key = wire.AppendIDKey(x.key[:0], m.ID())
	if c := x.s.Asked.Take(x.key); c != nil && c.More.Answers != nil {
		x.met = c
		c.More.Answers <- bytes.Clone(m.Raw) // the buffer has room, as only one question is open
	} else {
		x.srv.Host.Report.UnknownResponse(x.s.Unknown.CompareAndSwap(false, true), x.requestInfo(), m)
	}
	x.observeAnswer(m)
	return true
}

// withOurs adds dragoman's own tools to the server's response to tools/list.
func (x *exchange) withOurs(page []byte, method wire.Method) []byte {
	own := x.srv.Now().OwnFor(&x.sender)
	if own == nil || method != wire.ToolsList {
		return page
	}
	var clashing []string
	out := own.Extend(page, x.s.ClientRevision, func(name string) {
		if x.srv.Now().Collides(own.Of(name)) {
			clashing = append(clashing, name)
		} else {
			x.srv.noteCollision(name)
		}
	})
	if clashing != nil {
		out = x.hideCollisions(page, clashing)
	}
	return x.own(out, page)
}

// noteCollision counts that a server's tool was hidden, since an own tool has its name. It logs
// each name once.
func (srv *exchanges) noteCollision(name string) {
	srv.Metrics.Shadowed.WithLabelValues(name).Inc()
	if _, seen := srv.shadows.LoadOrStore(name, true); !seen {
		srv.Host.Log.Warn("a server tool has the name of an adapter tool: clients get the adapter tool", zap.String("tool", name))
	}
}
