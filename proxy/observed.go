package proxy

import (
	"context"
	"slices"

	"github.com/tidwall/gjson"

	"github.com/dragoman-proxy/dragoman/proxy/bridge/legacyclient"
	"github.com/dragoman-proxy/dragoman/proxy/mcp"
	"github.com/dragoman-proxy/dragoman/proxy/metrics"
	"github.com/dragoman-proxy/dragoman/proxy/observe"
	"github.com/dragoman-proxy/dragoman/proxy/session"
	"github.com/dragoman-proxy/dragoman/proxy/upstream"
	"github.com/dragoman-proxy/dragoman/translate"
	"github.com/dragoman-proxy/dragoman/translate/wire"
)

// This file tells package observe of the messages of exchanges. All of it does nothing while there is no reader.

// observation is what an exchange keeps for package observe.
type observation struct {
	seen     *observe.Call // of the client's message, or of the question that it answers; nil if it is not observed
	lent     bool          // seen is that of a question, and does not end with the exchange
	kept     observe.Copy  // the message under way as it came, if there is a reader
	lost     []wire.Loss   // what the translation of the message under way has lost
	question *session.Call // the server's question under way
	counted  [2]int        // the tokens of the result under way as it came and as it goes; 0 if they were not counted
}

// peers says who talks in x's messages.
func (x *exchange) peers() *observe.Peers { return x.s.Peers() }

// bridged reports whether package legacyclient translates x's messages, and observes the server's edge.
func (x *exchange) bridged() bool {
	_, is := x.s.Conn.(*legacyclient.Conn)
	return is
}

// observeSent begins the observation of the client's message m, before translation changes it.
func (x *exchange) observeSent(m *wire.Message) {
	if !x.kept.Kept() || m.Kind.Response() || x.call != nil {
		return // a response belongs to a question, which is looked up later
	}
	p := x.peers
	if m.Kind == wire.Request && x.tally != nil {
		p = func() *observe.Peers { return x.s.PeersWith(clientIn(m)) }
	}
	x.seen = x.srv.Observer.BeginWith(p(), x.kept, observe.HeadOf(m), false)
	if x.seen == nil {
		return
	}
	first := observe.Message{Edge: observe.ClientEdge, Direction: observe.ToServer, Kind: m.Kind, Method: x.seen.Method, ID: x.seen.ID, Copy: x.kept}
	if !x.seen.Short() {
		first.Why, first.Header = x.why(m), headersOf(x.from)
	}
	x.seen.Came(first)
}

// clientIn returns the clientInfo that a modern request has in _meta. It is a part of m.
func clientIn(m *wire.Message) (info []byte) {
	info = []byte("{}") // the session's client is not that of the request
	mcp.Members(gjson.Get(wire.View(m.Params()), "_meta").Raw, func(name string, v gjson.Result) {
		if name == mcp.MetaClient {
			info = wire.Bytes(v.Raw)
		}
	})
	return info
}

// why returns what the translation of the client's message m knows.
func (x *exchange) why(m *wire.Message) observe.Why {
	if x.bridged() {
		return observe.Why{}
	}
	return observe.Why{Translator: x.s.Up, Known: known(m)}
}

// known returns what a translation knows of m. It keeps nothing of m's text.
func known(m *wire.Message) translate.Known {
	k := translate.Known{Facts: m.Facts, Stamp: m.Stamp}
	if m.Kind.Response() {
		k.Method, k.Note = m.Method, m.Note
	}
	return observe.Cloned(k)
}

func headersOf(from []upstream.Header) (list []observe.Header) {
	if len(from) > 0 {
		list = make([]observe.Header, 0, len(from))
	}
	for _, h := range from {
		list = append(list, observe.Header{Name: h.Name, Value: h.Value})
	}
	return list
}

// observeAnswer adds the client's response m to the question that it answers.
func (x *exchange) observeAnswer(m *wire.Message) {
	if !x.kept.Kept() {
		return
	}
	x.lent = x.met != nil && x.met.More.Seen != nil
	if x.lent {
		x.seen = x.met.More.Seen
	} else {
		x.seen = x.srv.Observer.Begin(x.peers(), x.kept, false)
	}
	if x.s.Principal == "" { // the answer of a modern client was in a request, which was added
		x.seen.Came(observe.Message{Edge: observe.ClientEdge, Direction: observe.ToServer, Copy: x.kept, Method: m.Method.String(), Why: x.why(m)})
	}
}

// observeForward adds what is sent to the server.
func (x *exchange) observeForward(body []byte) {
	if x.seen == nil || x.bridged() {
		return
	}
	x.seen.Went(observe.ServerEdge, observe.ToServer, body, x.lost...)
}

// fromServer translates one message of the server as translated does, and observes it.
func (x *exchange) fromServer(raw []byte) (out []byte, ok bool) {
	if x.kept, x.lost = x.keepSeen(raw), nil; !x.kept.Kept() {
		return x.translated(raw)
	}
	out, ok = x.translated(raw)
	call, alone := x.callOf(raw, ok)
	if call == nil {
		return out, ok
	}
	m := &x.msg
	if x.ownCall == nil && !x.bridged() {
		in := observe.Message{Edge: observe.ServerEdge, Direction: observe.ToClient, Copy: x.kept, Losses: x.lost}
		if !call.Short() {
			in.Why = observe.Why{Translator: x.s.Down, Known: known(m)}
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
	return out, ok
}

// keepSeen keeps a message of the server before it is changed.
func (x *exchange) keepSeen(raw []byte) observe.Copy {
	if x.call != nil && x.seen != nil {
		return x.seen.KeepAnswer(raw)
	}
	return x.srv.Observer.Keep(raw)
}

// seenWithin returns x's context, with what legacyclient needs to observe the server's edge.
func (x *exchange) seenWithin() context.Context {
	if x.seen == nil || !x.bridged() {
		return x.ctx
	}
	return observe.With(x.ctx, x.seen)
}

// callOf returns the call that the server's message raw in x.msg belongs to. alone says that it belongs to none, and has one of
// its own.
func (x *exchange) callOf(raw []byte, ok bool) (call *observe.Call, alone bool) {
	m := &x.msg
	switch {
	case m.Kind == wire.Request && x.question != nil:
		call = x.question.More.Seen
		x.question = nil
		return call, call != nil && call.Server
	case x.met != nil:
		return x.met.More.Seen, false
	case x.call != nil:
		return x.seen, false
	case m.Kind.Response() && !ok:
		return nil, false // dragoman has asked
	}
	if c, is := x.s.Conn.(*legacyclient.Conn); is {
		if call = c.Seen(raw); call != nil {
			return call, true
		}
	}
	return x.srv.Observer.Begin(x.peers(), x.kept, true), true
}

// observeQuestion returns the call of the server's question, which begins if it belongs to no other.
func (x *exchange) observeQuestion() *observe.Call {
	if !x.kept.Kept() || x.seen != nil && x.call != nil {
		return x.seen
	}
	return x.srv.Observer.Begin(x.peers(), x.kept, true)
}

// observeLocal adds a response of dragoman's own to the client.
func (x *exchange) observeLocal(body []byte) {
	if c := x.seen; c != nil {
		c.Add(observe.Message{Edge: observe.ClientEdge, Direction: observe.ToClient, Copy: x.srv.Observer.Keep(body), Method: c.Method})
	}
}

// observeFailure adds the error that x's client gets. If the client's message could not even be read, its observation
// begins with that.
func (x *exchange) observeFailure(f *mcp.Failure) {
	if x.seen == nil && x.kept.Kept() && x.s != nil {
		x.seen = x.srv.Observer.Begin(x.peers(), x.kept, false)
		x.seen.Came(observe.Message{Edge: observe.ClientEdge, Direction: observe.ToServer, Copy: x.kept})
	}
	if c := x.seen; c != nil && !x.lent {
		c.Add(observe.Message{Edge: observe.ClientEdge, Direction: observe.ToClient, Copy: x.srv.Observer.Keep(f.Body()), Method: c.Method, Status: f.Status})
	}
}

// observeRefusal observes a message of a client without a session that gets an error.
func (srv *Server) observeRefusal(message []byte, client *translate.Revision, transport string, f *mcp.Failure) {
	if !srv.Observer.Watched() || f.Status == 202 {
		return
	}
	p := observe.Peers{ClientTransport: transport}
	if client != nil {
		p.ClientRevision = client.Name
	}
	kept := srv.Observer.Keep(message)
	c := srv.Observer.Begin(&p, kept, false)
	if message != nil {
		c.Came(observe.Message{Edge: observe.ClientEdge, Direction: observe.ToServer, Copy: kept})
	}
	c.Add(observe.Message{Edge: observe.ClientEdge, Direction: observe.ToClient, Copy: srv.Observer.Keep(f.Body()), Method: c.Method, Status: f.Status})
	c.End(string(metrics.Refused), f.Why)
}

// observeRefused observes a message of the session's client that gets an error, and of which there is no exchange.
func (srv *Server) observeRefused(s *session.Session, message []byte, f *mcp.Failure) {
	if !srv.Observer.Watched() {
		return
	}
	kept := srv.Observer.Keep(message)
	c := srv.Observer.Begin(s.Peers(), kept, false)
	c.Came(observe.Message{Edge: observe.ClientEdge, Direction: observe.ToServer, Copy: kept})
	c.Add(observe.Message{Edge: observe.ClientEdge, Direction: observe.ToClient, Copy: srv.Observer.Keep(f.Body()), Method: c.Method, Status: f.Status})
	c.End(string(metrics.Refused), f.Why)
}

// noted notes that a feature of dragoman's has made out of before, if it has, and returns out.
func (x *exchange) noted(n observe.Note, before, out []byte) []byte {
	if x.kept.Kept() && (len(before) != len(out) || len(out) > 0 && &before[0] != &out[0]) {
		n.To = observe.ToClient
		x.about().Note(n)
	}
	return out
}

// noteDialect notes that the schemas of a list are in another dialect than the server's.
func (x *exchange) noteDialect() {
	if x.kept.Kept() {
		x.about().Note(observe.Note{By: observe.Dialect, What: "schemas", Path: "result.tools", To: observe.ToClient, Detail: "schemas are updated from draft-07 to 2020-12"})
	}
}

// about returns the observation of the call that the server's message answers.
func (x *exchange) about() *observe.Call {
	switch {
	case x.met != nil:
		return x.met.More.Seen
	case x.call != nil:
		return x.seen
	}
	return nil
}

// observeLost keeps what the translation of the message under way has lost.
func (x *exchange) observeLost(lost []wire.Loss) {
	if x.kept.Kept() {
		x.lost = slices.Clone(lost)
	}
}

// observe adds the error that the client gets instead of a response to c.
func (p *pipe) observe(c *session.Call, body []byte) {
	c.More.Seen.Add(observe.Message{Edge: observe.ClientEdge, Direction: observe.ToClient, Copy: p.srv.Observer.Keep(body), Method: c.Method.String()})
}
