package handshake

import (
	"slices"

	"github.com/tidwall/gjson"

	"github.com/dragoman-proxy/dragoman/proxy/observe"
	"github.com/dragoman-proxy/dragoman/proxy/ops/metrics"
	"github.com/dragoman-proxy/dragoman/proxy/ops/report"
	"github.com/dragoman-proxy/dragoman/proxy/protocol/mcp"
	"github.com/dragoman-proxy/dragoman/proxy/session"
	"github.com/dragoman-proxy/dragoman/translate"
	"github.com/dragoman-proxy/dragoman/translate/wire"
)

// This file tells package observe of the beginning and the end of sessions.

// observe begins the observation of the client's initialize.
func (h *Handshake) observe(raw []byte) {
	o := &h.Opener.Observer
	if !o.Watched() {
		return
	}
	p := observe.Peers{
		Client: session.NameOf([]byte(gjson.GetBytes(raw, "params.clientInfo").Raw)), ClientRevision: h.vc.Name, ClientTransport: "http", ServerTransport: h.Opener.ServerTransport(),
	}
	if h.Pipe {
		p.ClientTransport = h.Opener.PipeTransport()
	}
	if h.Heard == nil {
		h.Heard = slices.Clone(h.Header)
	}
	kept := o.Keep(raw)
	h.Seen = o.Begin(&p, kept, false)
	h.Seen.Came(observe.Message{Edge: observe.ClientEdge, Direction: observe.ToServer, Copy: kept, Header: h.Heard})
}

// observeProposal adds initialize as the server gets it.
func (h *Handshake) observeProposal(body []byte, propose *translate.Revision, why observe.Why, lost []wire.Loss) {
	if propose.Name != h.asked {
		h.Seen.Note(observe.Note{By: observe.Handshake, What: "protocolVersion", Path: "params.protocolVersion", To: observe.ToServer, Detail: versionChosen})
	}
	h.Seen.Because(observe.ToServer, why, lost)
	h.Seen.Became(observe.Message{Edge: observe.ServerEdge, Direction: observe.ToServer, Copy: h.Seen.Keep(body), Rev: propose.Name})
}

// observeAnswer adds the result as the client gets it.
func (h *Handshake) observeAnswer(s *session.Session, answer []byte) {
	if h.Seen == nil {
		return
	}
	if s.ServerRevision != h.vc {
		h.Seen.Note(observe.Note{By: observe.Handshake, What: "protocolVersion", Path: "result.protocolVersion", To: observe.ToClient, Detail: versionChosen})
	}
	if h.Opener.Now().Own != nil {
		h.Seen.Note(observe.Note{By: observe.OwnTools, What: "introduced", Path: "result", To: observe.ToClient, Detail: "dragoman has tools of its own"})
	}
	h.Seen.Went(observe.ClientEdge, observe.ToClient, answer)
}

// observeFailure adds the error that the client gets.
func (h *Handshake) observeFailure(f *mcp.Failure) {
	h.Seen.Add(observe.Message{Edge: observe.ClientEdge, Direction: observe.ToClient, Copy: h.Seen.Keep(f.Body()), Method: wire.Initialize.String(), Status: f.Status})
}

// End ends the observation of initialize. s is nil if there is no session.
func (h *Handshake) End(s *session.Session, err error) {
	switch {
	case h.Seen == nil:
	case err != nil:
		f := report.FailureOf(err)
		h.Seen.End(string(report.Outcome(f)), string(report.FaultOf(f).Cause))
	case s == nil:
		h.Seen.End(string(metrics.Errored), "")
	default:
		h.Seen.End(string(metrics.Succeeded), "")
	}
}

// versionChosen is noted of initialize: no rule of the translation sets the revision.
const versionChosen = "dragoman proposes the revisions that the server may speak, and gives the client the one that it asked for"
