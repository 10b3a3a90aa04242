package exchange

import (
	"bytes"
	"sync/atomic"

	"github.com/tidwall/gjson"
	"go.uber.org/zap"

	"github.com/dragoman-proxy/dragoman/proxy/bytes/large"
	"github.com/dragoman-proxy/dragoman/proxy/features/owntools"
	"github.com/dragoman-proxy/dragoman/proxy/observe"
	"github.com/dragoman-proxy/dragoman/proxy/ops/metrics"
	"github.com/dragoman-proxy/dragoman/proxy/ops/report"
	"github.com/dragoman-proxy/dragoman/proxy/pipes"
	"github.com/dragoman-proxy/dragoman/proxy/protocol/dialect"
	"github.com/dragoman-proxy/dragoman/proxy/protocol/mcp"
	"github.com/dragoman-proxy/dragoman/proxy/protocol/memo"
	"github.com/dragoman-proxy/dragoman/proxy/session"
	"github.com/dragoman-proxy/dragoman/translate"
	"github.com/dragoman-proxy/dragoman/translate/wire"
)

// FromClient scans one message of the client and translates it for the server. A request becomes
// x.call. raw may be rewritten in place; out is valid until the exchange's next step.
//
// If the verdict is Answer, out is the response to the client itself.
func (x *Exchange) FromClient(raw []byte) (out []byte, v wire.Verdict, err error) {
	if err := x.Enter(raw); err != nil {
		return nil, wire.Drop, err
	}
	return x.Onward(raw)
}

// Enter is the first half of fromClient, which never waits.
func (x *Exchange) Enter(raw []byte) error {
	x.kept = x.Common.Observer.KeepFirst(raw)
	if err := x.Scan(raw); err != nil {
		return err
	}
	m := &x.Msg
	x.beginSpan(m)
	x.observeSent(m)
	x.Span.Numbered(x.Seen.Number())
	if m.Kind != wire.Request {
		return nil
	}
	x.claim(m)
	if err := x.admit(m); err != nil {
		return report.FailureOf(err).About(m.ID())
	}
	x.want(m)
	return nil
}

// parsed ends the lap of a scan. Unless the client wants to know it, the time counts as Translate: a look at the clock less.
func (x *Exchange) parsed() {
	if x.Clock.Asked {
		x.Clock.Lap(&x.Clock.Parse)
	}
}

// Scan scans raw, the client's message, into x.msg.
func (x *Exchange) Scan(raw []byte) error {
	x.Clock.Start()
	err := x.Msg.ScanLike(x.Scanned, raw, x.Session.Shape())
	x.Scanned = nil
	x.parsed()
	if err != nil {
		return x.Session.Up.ScanError(&x.Msg, err)
	}
	x.Msg.Facts, x.Msg.Stamp = x.Session.Facts, x.Crossing.ToServer()
	return nil
}

// Onward is the second half of fromClient, for which a call may have to wait.
func (x *Exchange) Onward(raw []byte) (out []byte, v wire.Verdict, err error) {
	x.Met, x.within = nil, ""
	switch m := &x.Msg; {
	case m.Kind == wire.Request:
		if x.OwnCall != nil {
			return raw, wire.Forward, nil
		}
		refusal, err := x.gate(m)
		if err != nil {
			return nil, wire.Drop, err
		}
		if refusal != nil {
			x.Seen.Note(observe.Note{By: observe.Gate, What: "refused", Detail: "a gate has refused the call: the server does not have it"})
			return x.own(mcp.AppendResult(nil, m.ID(), refusal), raw), wire.Answer, nil
		}
		x.learn(m)
	case m.Kind == wire.Notification:
		if m.Method == wire.Initialized && x.Session.Greeted {
			return nil, wire.Drop, nil // readTools has already sent it
		}
		if x.isStray(m) {
			return nil, wire.Drop, nil
		}
		x.Cancels = m.Method == wire.Cancelled
		x.key = AppendCancelled(x.key[:0], m)
	default:
		if x.receiveAnswer(m) {
			return nil, wire.Drop, nil
		}
		if c := x.Session.Renewing; c != nil {
			x.within = c.SessionID()
		}
		answer, known, err := x.openSealed(raw)
		if err != nil {
			return nil, wire.Drop, err
		}
		if answer == nil {
			x.Common.Host.Report.Dropped("late_answer")
			return nil, wire.Drop, nil
		}
		raw = answer
		other := !known && x.asksByOther(m)
		known = known || !other && x.reunite(x.Session.Asked)
		known = known && (x.Met == nil || !x.Met.Cancelled.Load())
		x.observeAnswer(m)
		x.endQuestion(m)
		switch {
		case known:
		case other, x.Session.Local, x.Session.Again.Load(), // the server does not wait for it, or another process of its does, which has used the id again
			x.Session.Asked.Ended(x.key): // the server has an answer already, or has cancelled the question
			x.Common.Host.Report.UnknownResponse(x.firstUnknown(), x.At(), m)
			return nil, wire.Drop, nil
		} // else another process may know the question
	}
	x.id = append(x.id[:0], x.Msg.ID()...)
	method, kind := x.Msg.Method, x.Msg.Kind
	out, v, err = x.rewrite(x.Session.Up, raw, large.RequestCopy)
	x.Clock.Lap(&x.Clock.Translate)
	x.noteLosses(x.Session.Up, method, x.Msg.Losses)
	x.Span.Lost(x.Msg.Losses)
	if x.Msg.Unfit && x.repeat(x.Msg.Note, out) {
		return nil, wire.Drop, nil
	}
	switch {
	case err != nil && kind.Response(): // the server waits for a response
		f := report.FailureOf(err)
		return mcp.AppendError(nil, x.id, f.Code, f.Text, nil), wire.Forward, nil
	case err != nil && kind == wire.Notification:
		x.Common.Host.Report.Untranslated(err, x.From)
		return nil, wire.Drop, nil
	case err != nil:
		return nil, wire.Drop, err
	}
	if x.Call != nil && x.Msg.Note != nil {
		err = x.Call.Keep(x.Msg.Note)
	}
	if x.emptyCursor {
		out = x.own(owntools.LedOn(out), raw)
	}
	return out, v, err
}

// isStray reports whether a notification is about the progress of no request: it has no token, or not the one that dragoman gave the
// server for this request. Some published servers send such, which clients refuse or take for that of another call. It counts as
// dropped.
func (x *Exchange) isStray(m *wire.Message) bool {
	if m.Method != wire.Progress || m.HasProgressToken() && x.isOwnToken(m) {
		return false
	}
	x.Common.Host.Report.Dropped("unattributed")
	return true
}

// isOwnToken reports whether a notification has the token that dragoman gave the server, if it gave one. Tools of dragoman's own have
// the client's.
func (x *Exchange) isOwnToken(m *wire.Message) bool {
	c := x.Crossing
	if c == nil || c.Up.ProgressToken == nil || x.OwnCall != nil {
		return true
	}
	token := gjson.Get(wire.View(m.Params()), "progressToken").Raw
	return token == string(c.Up.ProgressToken) || wire.Equal([]byte(token), c.Up.ProgressToken)
}

// FromServer translates one message of the server as translated does.
func (x *Exchange) FromServer(raw []byte) (out []byte, ok bool) {
	x.kept, x.lost = x.keepSeen(raw), nil
	out, ok = x.translated(raw)
	if x.kept.Kept() {
		x.observeTranslated(raw, out, ok)
	}
	return out, ok
}

// translated scans one message of the server and translates it for the client. ok is false if the
// client gets nothing. If the server must get a response at once, translated sends it. raw may be
// rewritten in place. It is called by fromServer.
func (x *Exchange) translated(raw []byte) (out []byte, ok bool) {
	m, s := &x.Msg, x.Session
	x.Met, x.Final = nil, false
	defer func() {
		if p := recover(); p != nil {
			out, ok = x.afterPanic(p, raw)
		}
	}()
	down := s.Down
	if x.OwnCall != nil {
		down = x.OwnCall.Down
	}
	x.Clock.Start()
	var key memo.Key
	listed := false
	if !x.answered {
		if key, listed = x.listKey(x.Call, down); listed {
			if out, ok := x.again(key, raw); ok {
				return x.completed(out, m), true
			}
		}
	}
	err := m.ScanLike(x.scannedAs(raw), raw, down.Shape())
	x.parsed()
	if err != nil && wire.Mend(raw) {
		x.Common.Host.Quirk(mcp.NullMember)
		err = m.Scan(raw, down.Shape())
	}
	if err != nil {
		x.bad = x.Common.Host.Report.Malformed(down.ScanError(m, err), raw, x.From)
		x.hopeless = x.isBrokenAnswer(raw)
		return nil, false
	}
	if x.isTextOfCall(m) {
		x.Common.Host.Quirk(mcp.TextID)
		pipes.PutID(m, []byte(x.Call.ID))
		if err := m.Scan(raw, down.Shape()); err != nil {
			return nil, false
		}
	}
	if m.Kind == wire.Error && x.doubtsSession(m, raw) {
		return nil, false
	}
	m.Facts, m.Stamp = s.Facts, x.Crossing.ToClient()
	var asked *session.Call    // the question that the server has cancelled
	var question *session.Call // the question of the server
	switch {
	case m.Kind == wire.Request && !s.Direct.ServerAsks():
		x.Common.Host.Report.Dropped("request") // modern servers send no requests
		if s.Piped {                            // over HTTP there is no way for a response
			x.reply(pipes.Unasked(m))
		}
		return nil, false
	case m.Kind == wire.Request && (s.Pooled || s.Deaf.Load()):
		answer := ClientGone(m.ID())
		if s.Pooled {
			answer = unasked(m.ID())
		}
		if m.Method == wire.Ping {
			answer = mcp.AppendResult(nil, m.ID(), "{}")
		}
		x.reply(answer)
		return nil, false
	case m.Kind == wire.Request && x.isRepeated(m): // it is already in s.asked
	case m.Kind == wire.Request:
		if question, err = x.admitAsked(m); err != nil {
			f := report.FailureOf(err)
			x.reply(mcp.AppendError(x.buf[:0], m.ID(), f.Code, f.Text, nil))
			return nil, false
		}
	case m.Kind == wire.Notification:
		if x.isStray(m) {
			return nil, false
		}
		if m.Method == wire.Cancelled {
			x.key = AppendCancelled(x.key[:0], m)
			if asked = s.Asked.Cancel(x.key); asked != nil {
				x.Crossing.Withdraw(asked.ID)
			} else if asked = x.ofLost(m); asked == nil && x.laterSession() != "" {
				return nil, false // it is over, and by the server's id the client may know a question of an earlier session
			}
		}
		if m.Method == wire.ToolsListChanged {
			s.Tools.Forget()
		}
		x.Common.Results.Heard(m)
	case x.Crossing.KeepResponse(m):
		return nil, false // dragoman asked
	default:
		x.Verdict, x.Fault = metrics.OutcomeOf(m), metrics.FaultOf(m)
		if x.across != nil && x.across.Failed() {
			x.Verdict = metrics.Failed
		}
		if x.isAnswer(m) {
			m.Method, m.Note = x.Call.Method, x.Call.Note
		} else if known := x.reunite(s.Open); !known && s.Open.Unique {
			x.Common.Host.Report.UnknownResponse(x.firstUnknown(), x.At(), m)
			return nil, false // the client has no such open request
		} else if c := x.Met; c != nil && c.More.Answers != nil {
			x.Met = nil
			c.More.Answers <- bytes.Clone(raw) // dragoman asked
			return nil, false
		} else if x.Crossing.Renames() {
			x.Met = nil
			if !known {
				x.Common.Host.Report.UnknownResponse(x.firstUnknown(), x.At(), m)
			}
			return nil, false // with the id of x's request it would answer that
		} else if !known {
			x.Common.Host.Report.UnknownPassedOn(x.firstUnknown(), x.At(), m)
		}
	}
	span := x.answeredSpan(m)
	span.Answered(m)
	id := append(x.id[:0], m.ID()...)
	x.id = id
	method, kind := m.Method, m.Kind
	if kind == wire.Result && method == wire.ToolsList {
		x.noteTools(raw)
		x.Common.Metrics.Tools.Learn(m.Result())
	}
	if s.Tasked != nil && kind == wire.Result && method == wire.ToolsCall {
		if is := gjson.Parse(wire.View(m.Result())); is.Get("resultType").Str == "task" {
			s.Tasked(is.Get("taskId").String())
		}
	}
	if x.Crossing != nil && kind == wire.Request {
		x.Crossing.About(m.Params())
	}
	if !x.Final { // the answer to a request that is not x's own: on a pipe, all are
		if key, listed = x.listKey(x.Met, down); listed && kind == wire.Result {
			if k := x.Common.Lists.Find(key); k != nil && k.Is(raw, wire.View(id)) {
				if out, ok := x.fromMemory(k, raw); ok {
					x.remembered(key, k)
					return x.completed(out, m), true
				}
			}
		}
	}
	var list *memo.Pending
	if listed && kind == wire.Result && x.Verdict == metrics.Succeeded { // again counts it as such
		from, to := m.IDAt()
		list = x.Common.Lists.Watch(key, raw, from, to)
	}
	out, v, err := x.rewrite(down, raw, large.Copy)
	x.Clock.Lap(&x.Clock.Translate)
	x.noteLosses(down, method, m.Losses)
	span.Lost(m.Losses)
	switch {
	case err != nil && kind == wire.Request:
		f := report.FailureOf(err)
		x.forgetAsked(id)
		x.reply(mcp.AppendError(nil, id, f.Code, f.Text, nil))
		return nil, false
	case err != nil && kind == wire.Notification:
		x.Common.Host.Report.Untranslated(err, x.From)
		return nil, false
	case err != nil:
		x.Verdict = metrics.Failed
		f := x.failed(err)
		out, kind, list = mcp.AppendError(nil, x.Crossing.Rename(id), f.Code, f.Text, nil), wire.Error, nil
	case v == wire.Local:
		var over *atomic.Bool
		if question != nil {
			over = &question.Cancelled
		}
		x.Crossing.Keep(kind, method, id, out, over)
		return nil, false
	case v == wire.Answer:
		x.forgetAsked(id)
		x.Crossing.NoteUnasked(method, raw)
		x.reply(out)
		return nil, false
	case v != wire.Forward:
		return nil, false
	}
	if kind == wire.Result && m.Method == wire.ToolsList {
		var updated bool
		if out, updated = x.inDialect(out, down.To()); list != nil {
			list.Updated = updated
		}
	}
	if question != nil {
		out, _ = question.More.Span.Sent(out, nil)
	}
	if kind == wire.Request && (m.Note != nil || s.Again.Load()) {
		out = x.sealNote(out, id, m.Note, method)
		x.mayRepeat(out, id, m.Note)
	}
	out = renamed(out, asked)
	if list != nil {
		x.Common.Lists.Learn(list, out, m.Losses)
	}
	if kind == wire.Result {
		out = x.completed(out, m)
	}
	return out, true
}

// scannedAs returns raw, the server's message, as the stream has scanned it, or nil.
func (x *Exchange) scannedAs(raw []byte) *wire.Message {
	if x.across == nil {
		return nil
	}
	if m := x.across.Scanned(); m != nil && sameMemory(m.Raw, raw) {
		return m
	}
	return nil
}

// inDialect updates the schemas in a list of tools for clients whose revision uses JSON Schema
// 2020-12, and reports whether any had to be.
func (x *Exchange) inDialect(list []byte, client *translate.Revision) (out []byte, updated bool) {
	if !client.Schemas2020 || x.Common.Now().Config.Contract.SchemaDialect == "off" {
		return list, false
	}
	out, n := dialect.Update(list)
	if n > 0 {
		x.noteDialect()
		x.log().Debug("tool schemas updated from draft-07 to 2020-12", zap.Int("schemas", n))
	}
	return out, n > 0
}

// completed completes a result for the client: it adds dragoman's own tools, and shapes the result.
// m is the message that out was translated from.
func (x *Exchange) completed(out []byte, m *wire.Message) []byte {
	switch m.Method {
	case wire.ServerDiscover:
		out = x.noted(observe.Note{By: observe.OwnTools, What: "introduced", Path: "result"}, out, x.introduced(out))
	case wire.ToolsList:
		out = x.noted(observe.Note{By: observe.Transform, What: "not_callable", Path: "result.tools", Detail: "tools that cannot be called over HTTP are removed"}, out, x.callable(out))
	}
	if x.OwnCall == nil {
		out = x.noted(observe.Note{By: observe.OwnTools, What: "added", Path: "result.tools", Detail: "tools of dragoman's own are added"}, out, x.withOurs(out, m.Method))
	}
	if m.Method == wire.ToolsList {
		out = x.noted(observe.Note{By: observe.Footprint, What: "slimmed", Path: "result.tools", Detail: "the list of tools is kept small"}, out, x.slimmed(out))
	}
	x.counted = [2]int{}
	shaped := x.shaped(out, m)
	x.noted(observe.Note{By: observe.Transform, What: "shaped", Path: "result", Detail: "the result is made fit for the model"}, out, shaped)
	if x.counted != [2]int{} {
		x.about().Note(observe.Note{TokensBefore: x.counted[0], TokensAfter: x.counted[1]})
	}
	return shaped
}
