package judge

import (
	"bytes"
	"encoding/json"
	"strings"

	"github.com/dragoman-proxy/dragoman/bench/simulate/script"
	"github.com/dragoman-proxy/dragoman/bench/simulate/trace"
)

// newestHandshake is what a server of both eras speaks in a session with a handshake.
const newestHandshake = "2025-11-25"

// revisions knows the revision of each session, as far as the trace was read.
type revisions struct {
	client    map[string]string // by name
	server    map[session]string
	proposed  map[string]string // by process and id of the request to initialize
	speaks    string
	handshake string // the newest that it speaks with a handshake; "" for none
}

// session is a session of the server: of a process of its, if it is one on a pipe.
type session struct{ who, session string }

func revisionsOf(s *script.Script) *revisions {
	r := &revisions{client: map[string]string{}, server: map[session]string{}, proposed: map[string]string{}, speaks: s.Server.Revision}
	switch r.speaks {
	case "both":
		r.handshake = newestHandshake
	case modern:
	default:
		r.handshake = r.speaks
	}
	for _, c := range s.Clients {
		r.client[c.Name] = c.Revision
	}
	return r
}

// read reads the next event of the trace.
func (r *revisions) read(e *trace.Event) {
	switch {
	case e.Kind == trace.Began && e.Text != "":
		r.client[e.Who] = e.Text
	case e.Kind == trace.Received && e.Method == "initialize":
		var m struct {
			Params struct{ ProtocolVersion string }
		}
		_ = json.Unmarshal(e.Raw, &m)
		r.proposed[e.Who+" "+e.ID] = m.Params.ProtocolVersion
	case e.Kind == trace.Answers && e.Method == "initialize" && e.Failed == "":
		v := answeredRevision(e.Raw)
		if v == "" {
			v = min(r.proposed[e.Who+" "+e.ID], r.handshake)
		}
		r.server[session{e.Who, e.Session}] = v
	}
}

// answeredRevision is the revision that a result of initialize names.
func answeredRevision(raw []byte) string {
	var m struct {
		Result struct{ ProtocolVersion string }
	}
	_ = json.Unmarshal(raw, &m)
	return m.Result.ProtocolVersion
}

var namesRevision = []byte(`"io.modelcontextprotocol/protocolVersion"`)

// of is the revision of the message of e: of the client, or of the server's session.
func (r *revisions) of(e *trace.Event) string {
	if own, isClient := r.client[e.Who]; isClient {
		if e.Method == "initialize" {
			if v := answeredRevision(e.Raw); v != "" {
				return v
			}
		}
		return own
	}
	if e.Method == "initialize" && e.Kind == trace.Received {
		again := strings.HasPrefix(e.ID, `"dragoman:`) // in a lost session's place, with the capabilities that the server was told at first
		if v := r.proposed[e.Who+" "+e.ID]; v != "" && !again {
			return v
		}
		return newestHandshake
	}
	if r.handshake != r.speaks && bytes.Contains(e.Raw, namesRevision) {
		return modern
	}
	if v := r.server[session{e.Who, e.Session}]; v != "" {
		return v
	}
	if r.handshake != r.speaks {
		return modern
	}
	return r.handshake
}

// takenForOlder reports whether the client of c, of 2026-07-28, has come back with its answers at another replica than the one whose server had
// asked: one that takes a server of both eras for one with a handshake, as that was slow to say which it has. The state of the call is the
// server's own then, of which that replica knows nothing.
func (w *world) takenForOlder(c *call, end trace.Event) bool {
	if !w.isModern(c.owner) || w.script.Server.Revision != "both" || end.Failed != "-32602 Invalid or expired requestState" || !c.restsAtServer(end.At) {
		return false
	}
	asked := map[string]bool{} // the processes of the server that were asked which era they have
	for _, e := range w.all {
		switch {
		case e.At > end.At || e.Kind != trace.Received || w.owner[e.Who] != end.Via || w.owner[c.received[0].Who] == end.Via:
		case e.Method == "server/discover":
			asked[e.Who] = true
		case e.Method == "initialize" && asked[e.Who]:
			c.excuse = "taken-for-older"
			return true
		}
	}
	return false
}
