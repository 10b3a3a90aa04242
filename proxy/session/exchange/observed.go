package exchange

import (
	"context"
	"slices"

	"github.com/tidwall/gjson"

	"github.com/dragoman-proxy/dragoman/proxy/observe"
	"github.com/dragoman-proxy/dragoman/proxy/ops/losses"
	"github.com/dragoman-proxy/dragoman/proxy/ops/metrics"
	"github.com/dragoman-proxy/dragoman/proxy/protocol/mcp"
	"github.com/dragoman-proxy/dragoman/translate"
	"github.com/dragoman-proxy/dragoman/translate/wire"
)

// This file tells package observe of the messages of exchanges. All of it does nothing while there is no reader.

// peers returns the client and the server of x's message.
func (x *Exchange) peers() *observe.Peers { return x.Session.Peers() }

// bridged reports whether package legacyclient translates x's messages, and observes the server's edge.
func (x *Exchange) bridged() bool {
	return x.Session.Bridge != nil
}

// observeSent begins the observation of the client's message m, before translation changes it.
func (x *Exchange) observeSent(m *wire.Message) {
	if !x.kept.Kept() || m.Kind.Response() || x.Call != nil {
		return // a response belongs to a question, which is looked up later
	}
	p := x.peers
	if m.Kind == wire.Request && x.Tally != nil {
		p = func() *observe.Peers { return x.Session.PeersWith(ClientIn(m)) }
	}
	x.Seen = x.Common.Observer.BeginWith(p(), x.kept, observe.HeadOf(m), false)
	if x.Seen == nil {
		return
	}
	first := observe.Message{Edge: observe.ClientEdge, Direction: observe.ToServer, Kind: m.Kind, Method: x.Seen.Method, ID: x.Seen.ID, Copy: x.kept}
	if !x.Seen.Short() {
		if first.Why, first.Header = x.why(m), x.Heard; x.Heard == nil {
			first.Header = slices.Clone(x.From)
		}
	}
	x.Seen.Came(first)
}

// ClientIn returns the clientInfo that a modern request has in _meta. It is a part of m.
func ClientIn(m *wire.Message) (info []byte) {
	info = []byte("{}") // the session's client is not that of the request
	mcp.Members(gjson.Get(wire.View(m.Params()), "_meta").Raw, func(name string, v gjson.Result) {
		if name == mcp.MetaClient {
			info = wire.Bytes(v.Raw)
		}
	})
	return info
}

// why returns what the translation of the client's message m knows.
func (x *Exchange) why(m *wire.Message) observe.Why {
	if x.bridged() {
		return observe.Why{}
	}
	return observe.Why{Translator: x.Session.Up, Known: observe.KnownOf(m)}
}

// observeAnswer adds the client's response m to the question that it answers.
func (x *Exchange) observeAnswer(m *wire.Message) {
	if !x.kept.Kept() {
		return
	}
	x.lent = x.Met != nil && x.Met.More.Seen != nil
	if x.lent {
		x.Seen = x.Met.More.Seen
	} else {
		x.Seen = x.Common.Observer.Begin(x.peers(), x.kept, false)
	}
	if x.Session.Principal == "" { // the answer of a modern client was in a request, which was added
		x.Seen.Came(observe.Message{Edge: observe.ClientEdge, Direction: observe.ToServer, Copy: x.kept, Method: m.Method.String(), Why: x.why(m)})
	}
}

// observeForward adds what is sent to the server.
func (x *Exchange) observeForward(body []byte) {
	if x.Seen == nil || x.bridged() {
		return
	}
	x.Seen.Went(observe.ServerEdge, observe.ToServer, body, x.lost...)
}

// observeTranslated observes the server's message raw, in x.msg, of which out was made. ok is false if the client gets nothing.
func (x *Exchange) observeTranslated(raw, out []byte, ok bool) {
	call, alone := x.callOf(raw, ok)
	if call == nil {
		return
	}
	m := &x.Msg
	if x.OwnCall == nil && !x.bridged() {
		in := observe.Message{Edge: observe.ServerEdge, Direction: observe.ToClient, Copy: x.kept, Losses: x.lost}
		if !call.Short() {
			in.Why = observe.Why{Translator: x.Session.Down, Known: observe.KnownOf(m)}
		}
		if ok && m.Kind != wire.Request {
			in.Kind = m.Kind
		}
		if m.Kind.Response() {
			in.Method = m.Method.String()
		}
		call.Came(in)
	}
	if ok {
		call.Went(observe.ClientEdge, observe.ToClient, out)
	}
	switch {
	case alone && m.Kind != wire.Request:
		call.End(string(metrics.Succeeded), "")
	case alone && !ok:
		call.End(string(metrics.Local), "") // dragoman has answered the question
	}
}

// keepSeen keeps a message of the server before it is changed.
func (x *Exchange) keepSeen(raw []byte) observe.Copy {
	if x.Call != nil && x.Seen != nil {
		return x.Seen.KeepAnswer(raw)
	}
	return x.Common.Observer.Keep(raw)
}

// seenWithin returns x's context, with what legacyclient needs to observe the server's edge.
func (x *Exchange) seenWithin() context.Context {
	if x.Seen == nil || !x.bridged() {
		return x.Ctx
	}
	return observe.With(x.Ctx, x.Seen)
}

// callOf returns the call that the server's message raw in x.msg belongs to. alone says that it belongs to none, and has one of
// its own.
func (x *Exchange) callOf(raw []byte, ok bool) (call *observe.Call, alone bool) {
	m := &x.Msg
	switch {
	case m.Kind == wire.Request && x.question != nil:
		call = x.question.More.Seen
		x.question = nil
		return call, call != nil && call.Server
	case x.Met != nil:
		return x.Met.More.Seen, false
	case x.Call != nil:
		return x.Seen, false
	case m.Kind.Response() && !ok:
		return nil, false // dragoman has asked
	}
	if x.bridged() {
		if call = x.Session.Bridge.Seen(raw); call != nil {
			return call, true
		}
	}
	return x.Common.Observer.Begin(x.peers(), x.kept, true), true
}

// observeQuestion returns the call of the server's question, which begins if it belongs to no other.
func (x *Exchange) observeQuestion() *observe.Call {
	if !x.kept.Kept() || x.Seen != nil && x.Call != nil {
		return x.Seen
	}
	return x.Common.Observer.Begin(x.peers(), x.kept, true)
}

// ObserveLocal adds a response of dragoman's own to the client.
func (x *Exchange) ObserveLocal(body []byte) {
	if c := x.Seen; c != nil {
		c.Add(observe.Message{Edge: observe.ClientEdge, Direction: observe.ToClient, Copy: x.Common.Observer.Keep(body), Method: c.Method})
	}
}

// observeFailure adds the error that x's client gets. If the client's message could not even be read, its observation
// begins with that.
func (x *Exchange) observeFailure(f *mcp.Failure) {
	if x.Seen == nil && x.kept.Kept() && x.Session != nil {
		x.Seen = x.Common.Observer.Begin(x.peers(), x.kept, false)
		x.Seen.Came(observe.Message{Edge: observe.ClientEdge, Direction: observe.ToServer, Copy: x.kept})
	}
	if c := x.Seen; c != nil && !x.lent {
		c.Add(observe.Message{Edge: observe.ClientEdge, Direction: observe.ToClient, Copy: x.Common.Observer.Keep(f.Body()), Method: c.Method, Status: f.Status})
	}
}

// noted notes that a feature of dragoman's has made out of before, if it has, and returns out.
func (x *Exchange) noted(n observe.Note, before, out []byte) []byte {
	if x.kept.Kept() && (len(before) != len(out) || len(out) > 0 && &before[0] != &out[0]) {
		n.To = observe.ToClient
		x.about().Note(n)
	}
	return out
}

// noteDialect notes that the schemas of a list are in another dialect than the server's.
func (x *Exchange) noteDialect() {
	if x.kept.Kept() {
		x.about().Note(observe.Note{By: observe.Dialect, What: "schemas", Path: "result.tools", To: observe.ToClient, Detail: "schemas are updated from draft-07 to 2020-12"})
	}
}

// about returns the observation of the call that the server's message answers.
func (x *Exchange) about() *observe.Call {
	switch {
	case x.Met != nil:
		return x.Met.More.Seen
	case x.Call != nil:
		return x.Seen
	}
	return nil
}

// noteLosses counts, logs and observes what t has made of the message under way, or of one that it stands for.
func (x *Exchange) noteLosses(t *translate.Translator, method wire.Method, list []wire.Loss) {
	x.observeLost(list)
	if len(list) > 0 {
		x.Common.Host.Losses.Note(losses.Peers{From: t.From(), To: t.To(), Client: x.Session.Peers().Client}, method, list, x.From)
	}
}

// observeLost keeps what the translation of the message under way has lost.
func (x *Exchange) observeLost(lost []wire.Loss) {
	if x.kept.Kept() {
		x.lost = slices.Clone(lost)
	}
}
