package era

import (
	"errors"
	"io"
	"slices"
	"strings"
	"syscall"

	"github.com/tidwall/gjson"

	"github.com/dragoman-proxy/dragoman/proxy/protocol/mcp"
	"github.com/dragoman-proxy/dragoman/proxy/transport/upstream"
	"github.com/dragoman-proxy/dragoman/translate"
	"github.com/dragoman-proxy/dragoman/translate/wire"
)

// Proposals are the revisions that one initialize proposes to the server, one after the other until the server
// accepts one.
type Proposals struct {
	of    *fallbacks
	whose string
	known *fallback // nil for none

	client *translate.Revision
	list   []*translate.Revision // still to be proposed
	now    *translate.Revision
	count  int
	given  bool // the server has named a revision that it accepts
	denied bool // the server has refused the newest revision
}

// Proposals returns the proposals for a client of this revision, or for dragoman itself if it is nil. named is the newest
// revision that the server has named, or nil. The client's own revision is not the first proposal, since published servers
// accept an older revision and still send what it lacks.
func (p *Cache) Proposals(client, named *translate.Revision, header []mcp.Header) *Proposals {
	return p.fallbacks.proposals(client, named, translate.Lookup(p.host.Config().Upstream.Version), header)
}

// HasFallback reports whether the server has refused the newest revision and accepted an older one, for the
// credential in header.
func (p *Cache) HasFallback(header []mcp.Header) bool { return p.fallbacks.of(header) != nil }

// proposals returns the proposals. set is the revision that the configuration sets, or nil.
func (k *fallbacks) proposals(client, named, set *translate.Revision, header []mcp.Header) *Proposals {
	p := &Proposals{of: k, whose: credential(header), client: client}
	if set != nil && !set.Modern {
		p.list = []*translate.Revision{set}
		return p
	}
	p.known = k.of(header)
	all := translate.Handshake() // newest first
	var list []*translate.Revision
	if p.known != nil && client != all[0] {
		list = append(list, client)
	}
	if p.known != nil {
		list = append(list, p.known.accepted)
	}
	list = append(append(list, named, all[0], client), all...)
	for _, r := range list {
		if r != nil && !r.Modern && !slices.Contains(p.list, r) {
			p.list = append(p.list, r)
		}
	}
	return p
}

// Next returns the revision to propose. There is one at first, and after each GoOn that reports true.
func (p *Proposals) Next() *translate.Revision {
	p.now, p.list = p.list[0], p.list[1:]
	p.count++
	return p.now
}

// First reports whether Next was called exactly once.
func (p *Proposals) First() bool { return p.count == 1 }

// Only makes r the last revision to be proposed: the server has named r when it refused another one. Only
// returns false, and changes nothing, if it was called before or if r is the revision that was refused.
func (p *Proposals) Only(r *translate.Revision) bool {
	if p.given || r == p.now {
		return false
	}
	p.given, p.list = true, []*translate.Revision{r}
	return true
}

// GoOn reports whether to propose another revision. m is the response to the last proposal, or err the error of
// the request.
func (p *Proposals) GoOn(m *wire.Message, err error) bool {
	refused, closed := RefusesProposal(m, err)
	// A process that ends at any message must not be started again and again: if it ends at the client's own
	// revision, the revision is not the reason.
	again := refused && !p.given && len(p.list) > 0 && !(closed && p.now == p.client)
	if again && p.now == translate.Latest() {
		p.denied = true
	}
	if !again && p.known != nil {
		p.of.set(p.whose, nil)
	}
	return again
}

// Accepted notes that the server has accepted the last proposal with the result m.
func (p *Proposals) Accepted(m *wire.Message) {
	server := gjson.Get(wire.View(m.Result()), "serverInfo").Raw
	switch latest := translate.Latest(); {
	case p.denied, p.known != nil && p.now != latest && p.known.server == server && p.now.Newer(p.known.accepted):
		p.of.set(p.whose, &fallback{p.now, strings.Clone(server)})
	case p.known != nil && (p.now == latest || p.known.server != server):
		p.of.set(p.whose, nil) // the server has changed: the next session proposes the newest revision
	}
}

// RefusesProposal reports whether m, the response to initialize, or err instead of it, may mean that the server
// does not accept the revision. closed says that the server ended the connection instead of answering.
func RefusesProposal(m *wire.Message, err error) (refused, closed bool) {
	if err == nil {
		return m.Kind == wire.Error, false
	}
	if status, ok := errors.AsType[*upstream.StatusError](err); ok {
		return status.Code >= 400 && status.Code <= 500 && !Inconclusive(status.Code), false
	}
	if _, exited := errors.AsType[*upstream.ExitError](err); exited {
		return true, true
	}
	closed = !upstream.NeverSent(err) && (errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) ||
		errors.Is(err, syscall.ECONNRESET) || errors.Is(err, upstream.ErrLost))
	return closed, closed
}
