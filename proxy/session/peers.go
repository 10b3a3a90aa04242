package session

import (
	"slices"
	"strings"

	"github.com/dragoman-proxy/dragoman/proxy/observe"
	"github.com/dragoman-proxy/dragoman/proxy/ops/losses"
	"github.com/dragoman-proxy/dragoman/proxy/ops/metrics"
	"github.com/dragoman-proxy/dragoman/proxy/pipes/mcpheader"
	"github.com/dragoman-proxy/dragoman/proxy/protocol/mcp"
	"github.com/dragoman-proxy/dragoman/proxy/replicas/principal"
	"github.com/dragoman-proxy/dragoman/proxy/replicas/sealed"
	"github.com/dragoman-proxy/dragoman/proxy/transport/downstream"
	"github.com/dragoman-proxy/dragoman/proxy/transport/upstream"
	"github.com/dragoman-proxy/dragoman/translate"
	"github.com/dragoman-proxy/dragoman/translate/wire"
)

// Peers returns the client and the server of the session, for the observer.
func (s *Session) Peers() *observe.Peers { return s.PeersWith(nil) }

// PeersWith is peers for a request with this clientInfo. Most calls of a session have the same peers, so it remembers the
// last ones.
func (s *Session) PeersWith(info []byte) *observe.Peers {
	if k := s.seen.Load(); k != nil && k.info == string(info) && k.client == s.ClientName && k.server == s.ServerName && k.owner == s.Principal {
		return &k.Peers
	}
	k := &seenPeers{s.newPeers(), s.ClientName, s.ServerName, s.Principal, string(info)}
	if info != nil {
		k.Client = NameOf(info)
	}
	if len(info) <= mcp.MaxSelf {
		s.seen.Store(k)
	}
	return &k.Peers
}

func (s *Session) newPeers() observe.Peers {
	p := observe.Peers{
		Session: Fingerprint(s.ID), Client: s.ClientName, Server: s.ServerName, ClientTransport: "http", ServerTransport: s.Table.ServerTransport(),
	}
	NoteRevisions(&p, &s.Session)
	if s.Pipe != 0 || s.Table.Personal.Load() {
		p.ClientTransport = s.Table.PipeTransport()
	}
	switch {
	case s.Principal != "":
		p.Principal = Fingerprint(s.Principal)
	case s.ID == "":
		p.Session = Fingerprint(s.Who())
	}
	if s.Transport == upstream.HTTPWithSSE {
		p.ServerTransport = "sse"
	}
	if p.Client == "" {
		p.Client = NameOf([]byte(s.ClientInfo))
	}
	return p
}

// NoteRevisions sets what p says of the revisions of a session.
func NoteRevisions(p *observe.Peers, s *sealed.Session) {
	p.ClientRevision, p.ServerRevision = s.ClientRevision.Name, s.ServerRevision.Name
	p.Bridged = !s.ClientRevision.SameEra(s.ServerRevision)
}

// ServerTransport returns the transport of the server, as configured.
func (t *Table) ServerTransport() string {
	if u := &t.Now().Config.Upstream; u.URL != "" && u.Transport != "sse" {
		return "http"
	} else if u.URL != "" {
		return "sse"
	}
	return "stdio"
}

// PipeTransport returns the transport of clients on pipes.
func (t *Table) PipeTransport() string {
	if t.Personal.Load() {
		return "stdio"
	}
	return "sse"
}

// observeNews makes the notifications of a server without a handshake, that belong to no call, known to s.
func (s *Session) observeNews() {
	if s.Bridge != nil {
		s.Bridge.Observe(func(raw []byte) (*observe.Call, observe.Copy) {
			kept := s.Table.Observer.Keep(raw)
			if !kept.Kept() {
				return nil, kept
			}
			return s.Table.Observer.Begin(s.Peers(), kept, true), kept
		})
	}
}

// NameOf returns the name and version in an Implementation, JSON.
func NameOf(implementation []byte) string {
	return losses.NameOf(wire.View(implementation))
}

// ObserveSession tells of the session that began with the call begun.
func (s *Session) ObserveSession(begun *observe.Call) {
	if s.Table.Observer.Watched() {
		s.Table.Observer.Session(observe.Session{Peers: *s.Peers(), Call: begun})
	}
}

// Fingerprints returns the fingerprints of the ids of s.
func (s *Session) Fingerprints() *marks {
	m := s.marks.Load()
	if m == nil {
		m = &marks{Fingerprint(s.ID), Fingerprint(s.Named)}
		s.marks.Store(m)
	}
	return m
}

// Fingerprint returns a text that stands for a session's id, which itself would grant access.
func Fingerprint(id string) string {
	if id == "" {
		return ""
	}
	return principal.Mark(id)[:16]
}

// ObserveRefusal observes a message of a client without a session that gets an error.
func (t *Table) ObserveRefusal(message []byte, client *translate.Revision, transport string, f *mcp.Failure) {
	if !t.Observer.Watched() || f.Status == 202 {
		return
	}
	p := observe.Peers{ClientTransport: transport}
	if client != nil {
		p.ClientRevision = client.Name
	}
	t.observeRefused(&p, message, f)
}

// ObserveRefused observes a message of the session's client that gets an error, and of which there is no exchange.
func (t *Table) ObserveRefused(s *Session, message []byte, f *mcp.Failure) {
	if t.Observer.Watched() {
		t.observeRefused(s.Peers(), message, f)
	}
}

func (t *Table) observeRefused(p *observe.Peers, message []byte, f *mcp.Failure) {
	kept := t.Observer.Keep(message)
	c := t.Observer.Begin(p, kept, false)
	if message != nil {
		c.Came(observe.Message{Edge: observe.ClientEdge, Direction: observe.ToServer, Copy: kept})
	}
	c.Add(observe.Message{Edge: observe.ClientEdge, Direction: observe.ToClient, Copy: t.Observer.Keep(f.Body()), Status: f.Status})
	c.End(string(metrics.Refused), f.Why)
}

// Bounds of the headers of one request that the observer keeps.
const (
	maxHeard      = 32
	maxHeardValue = 1 << 10
)

// Heard returns the headers of a client's request as the observer keeps them: those that are passed on, and those that the
// protocol and its transport define. A long value is left out, since half of a secret may not be recognized.
func Heard(passed []mcp.Header, req *downstream.Request) []mcp.Header {
	list := slices.Clone(passed)
	add := func(name, value string) {
		known := slices.ContainsFunc(list, func(h mcp.Header) bool { return strings.EqualFold(h.Name, name) })
		if value != "" && len(value) <= maxHeardValue && !known && len(list) < maxHeard {
			list = append(list, mcp.Header{Name: strings.Clone(name), Value: strings.Clone(value)})
		}
	}
	for _, name := range [...]string{"Content-Type", "Accept", "Last-Event-ID"} {
		add(name, req.Header(name))
	}
	if req.Headers != nil {
		req.Headers(mcpheader.Prefix, add)
	}
	add("Mcp-Session-Id", req.Session)
	add("Mcp-Protocol-Version", req.Version)
	return list
}
