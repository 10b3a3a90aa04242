package clients

import (
	"errors"
	"time"

	"github.com/dragoman-proxy/dragoman/proxy/bytes/sse"
	"github.com/dragoman-proxy/dragoman/proxy/observe"
	"github.com/dragoman-proxy/dragoman/proxy/ops/metrics"
	"github.com/dragoman-proxy/dragoman/proxy/ops/report"
	"github.com/dragoman-proxy/dragoman/proxy/protocol/mcp"
	"github.com/dragoman-proxy/dragoman/proxy/replicas"
	"github.com/dragoman-proxy/dragoman/proxy/replicas/sealed"
	"github.com/dragoman-proxy/dragoman/proxy/session"
	"github.com/dragoman-proxy/dragoman/proxy/session/exchange"
	"github.com/dragoman-proxy/dragoman/proxy/transport/downstream"
	"github.com/dragoman-proxy/dragoman/translate/wire"
)

// This file tells package observe of requests that another replica answers. That replica observes both edges; this one what
// its client sent and got.

// Forward forwards a request to another process. If no response comes, the request fails with the
// cause lost.
func (p *Proxy) Forward(to sealed.ID, method string, lost mcp.Cause, req *downstream.Request, resp *downstream.Response) error {
	r := &replicas.Request{Request: req, Method: method, Header: p.CarriedHeaders(req), Lost: lost}
	if !p.Observer.Watched() || method == "DELETE" {
		err := p.Replicas.Forward(to, r, resp)
		settleStatus(req, resp)
		return err
	}
	f := &forwarded{proxy: p, request: r, kept: p.Observer.Keep(req.Body), peers: p.peersOfForwarded(req)}
	seen := *req
	r.Request, seen.Client = &seen, &forwardedPeer{req.Client, f}
	err := p.Replicas.Forward(to, r, resp)
	settleStatus(req, resp)
	f.answered(resp, err)
	return err
}

// answered observes what came of the request. Nothing is seen of a request that no replica took: it goes on here.
func (f *forwarded) answered(resp *downstream.Response, err error) {
	switch {
	case errors.Is(err, replicas.ErrNotTaken):
	case f.request.Method == "GET":
		if listen := resp.Listen; listen != nil {
			resp.Listen = func(client mcp.Peer, w mcp.Waker) error { return listen(&forwardedPeer{client, f}, w) }
		}
	case err == nil:
		f.begin()
		f.sent(resp.Body, resp.Status)
		switch {
		case resp.Cut != nil && f.outcome == "":
			f.outcome = metrics.Left
		case f.outcome == "":
			f.outcome = metrics.Succeeded
		}
		f.call.End(string(f.outcome), "")
	case IsReported(err) || f.request.Session != "": // otherwise refuse observes it
		f.begin()
		lost := report.FailureOf(err)
		f.call.Add(observe.Message{Edge: observe.ClientEdge, Direction: observe.ToClient, Copy: f.call.Keep(lost.Body()), Status: lost.Status})
		f.call.End(string(report.Outcome(lost)), lost.Why)
	}
}

// peersOfForwarded says who talks, as far as the session's id and the request tell.
func (proxy *Proxy) peersOfForwarded(req *downstream.Request) *observe.Peers {
	p := &observe.Peers{Session: session.Fingerprint(req.Session), ClientRevision: req.Version, ClientTransport: "http", ServerTransport: proxy.ServerTransport()}
	var m wire.Message
	if s, ok := proxy.Now().Sealer.OpenSession(req.Session, time.Now()); ok {
		p.Client = session.NameOf([]byte(s.ClientInfo))
		session.NoteRevisions(p, &s)
	} else if m.Scan(req.Body, nil) == nil {
		p.Client = session.NameOf(exchange.ClientIn(&m))
	}
	return p
}

// forwarded is a request that another replica answers, as this one's client sees it.
type forwarded struct {
	proxy   *Proxy
	request *replicas.Request
	kept    observe.Copy
	peers   *observe.Peers
	call    *observe.Call   // nil before begin, and for a standing stream
	outcome metrics.Outcome // of the response; "" before
}

// begin begins the observation once a replica has taken the request.
func (f *forwarded) begin() {
	if f.call != nil {
		return
	}
	if f.call = f.proxy.Observer.Begin(f.peers, f.kept, false); f.call == nil {
		return
	}
	header := session.Heard(f.proxy.AppendPassed(nil, f.request.Request.Header), f.request.Request)
	f.call.Came(observe.Message{Edge: observe.ClientEdge, Direction: observe.ToServer, Copy: f.kept, Header: header})
	f.call.WaitsForServer()
	f.note(f.call)
}

func (f *forwarded) note(c *observe.Call) {
	c.Note(observe.Note{By: observe.Replica, What: "forwarded", Detail: "the replica at " + f.request.Answers + " answers"})
}

// forwardedPeer is the client of a forwarded request.
type forwardedPeer struct {
	mcp.Peer
	of *forwarded
}

// Send implements [mcp.Peer].
func (p *forwardedPeer) Send(e sse.Event) error {
	switch f := p.of; {
	case len(e.Data) == 0:
	case f.request.Method == "GET":
		kept := f.proxy.Observer.Keep(e.Data)
		c := f.proxy.Observer.Begin(f.peers, kept, true)
		c.Add(observe.Message{Edge: observe.ClientEdge, Direction: observe.ToClient, Copy: kept})
		f.note(c)
		c.End(string(metrics.Succeeded), "")
	default:
		f.begin()
		f.sent(e.Data, 0)
	}
	return p.Peer.Send(e)
}

// sent observes a message that the client gets.
func (f *forwarded) sent(body []byte, status int) {
	if len(body) == 0 || f.call == nil {
		return
	}
	var m wire.Message
	if m.Scan(body, nil) == nil && m.Kind.Response() {
		f.outcome = metrics.OutcomeOf(&m)
	}
	f.call.Add(observe.Message{Edge: observe.ClientEdge, Direction: observe.ToClient, Copy: f.call.Keep(body), Status: status})
}
