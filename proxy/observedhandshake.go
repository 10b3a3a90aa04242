package proxy

import (
	"github.com/tidwall/gjson"

	"github.com/dragoman-proxy/dragoman/proxy/clienterror"
	"github.com/dragoman-proxy/dragoman/proxy/exchange"
	"github.com/dragoman-proxy/dragoman/proxy/mcp"
	"github.com/dragoman-proxy/dragoman/proxy/metrics"
	"github.com/dragoman-proxy/dragoman/proxy/observe"
	"github.com/dragoman-proxy/dragoman/proxy/report"
	"github.com/dragoman-proxy/dragoman/proxy/session"
	"github.com/dragoman-proxy/dragoman/translate"
	"github.com/dragoman-proxy/dragoman/translate/wire"
)

// This file tells package observe of the beginning and the end of sessions.

// versionChosen is noted of initialize: no rule of the translation sets the revision.
const versionChosen = "dragoman proposes the revisions that the server may speak, and gives the client the one that it asked for"

// observe begins the observation of the client's initialize.
func (h *handshake) observe(raw []byte) {
	o := &h.srv.Observer
	if !o.Watched() {
		return
	}
	p := observe.Peers{
		Client: session.NameOf([]byte(gjson.GetBytes(raw, "params.clientInfo").Raw)), ClientRevision: h.vc.Name, ClientTransport: "http", ServerTransport: h.srv.ServerTransport(),
	}
	if h.pipe {
		p.ClientTransport = h.srv.PipeTransport()
	}
	kept := o.Keep(raw)
	h.seen = o.Begin(&p, kept, false)
	h.seen.Came(observe.Message{Edge: observe.ClientEdge, Direction: observe.ToServer, Copy: kept, Header: exchange.HeadersOf(h.Header)})
}

// observeProposal adds initialize as the server gets it.
func (h *handshake) observeProposal(body []byte, propose *translate.Revision, why observe.Why, lost []wire.Loss) {
	if propose.Name != h.asked {
		h.seen.Note(observe.Note{By: observe.Handshake, What: "protocolVersion", Path: "params.protocolVersion", To: observe.ToServer, Detail: versionChosen})
	}
	h.seen.Because(observe.ToServer, why, lost)
	h.seen.Became(observe.Message{Edge: observe.ServerEdge, Direction: observe.ToServer, Copy: h.seen.Keep(body), Rev: propose.Name})
}

// observeAnswer adds the result as the client gets it.
func (h *handshake) observeAnswer(s *session.Session, answer []byte) {
	if h.seen == nil {
		return
	}
	if s.ServerRevision != h.vc {
		h.seen.Note(observe.Note{By: observe.Handshake, What: "protocolVersion", Path: "result.protocolVersion", To: observe.ToClient, Detail: versionChosen})
	}
	if h.srv.Now().Own != nil {
		h.seen.Note(observe.Note{By: observe.OwnTools, What: "introduced", Path: "result", To: observe.ToClient, Detail: "dragoman has tools of its own"})
	}
	h.seen.Went(observe.ClientEdge, observe.ToClient, answer)
}

// observeFailure adds the error that the client gets.
func (h *handshake) observeFailure(f *mcp.Failure) {
	h.seen.Add(observe.Message{Edge: observe.ClientEdge, Direction: observe.ToClient, Copy: h.seen.Keep(f.Body()), Method: wire.Initialize.String(), Status: f.Status})
}

// observeEnd ends the observation of initialize. s is nil if there is no session.
func (h *handshake) observeEnd(s *session.Session, err error) {
	switch {
	case h.seen == nil:
	case err != nil:
		f := clienterror.Of(err)
		h.seen.End(string(report.Outcome(f)), string(report.FaultOf(f).Cause))
	case s == nil:
		h.seen.End(string(metrics.Errored), "")
	default:
		h.seen.End(string(metrics.Succeeded), "")
	}
}
