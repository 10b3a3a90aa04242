package proxy

import (
	"errors"
	"io"
	"slices"
	"strings"
	"sync"
	"syscall"

	"github.com/tidwall/gjson"

	"github.com/dragoman-proxy/dragoman/proxy/upstream"
	"github.com/dragoman-proxy/dragoman/translate"
	"github.com/dragoman-proxy/dragoman/translate/wire"
)

// fallback is the older revision that a server has accepted after it refused the
// newest one.
type fallback struct {
	accepted *translate.Revision
	server   string // its serverInfo; another one says that the server has changed
}

// fallbacks are remembered per credential, as eras are.
type fallbacks struct {
	mu    sync.Mutex
	known map[string]*fallback // by credential
}

// of is the fallback for a client with these headers, nil for none.
func (k *fallbacks) of(header []upstream.Header) *fallback {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.known[credential(header)]
}

func (k *fallbacks) forget() {
	k.mu.Lock()
	defer k.mu.Unlock()
	clear(k.known)
}

func (k *fallbacks) set(whose string, f *fallback) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if f == nil {
		delete(k.known, whose)
		return
	}
	if k.known == nil || len(k.known) >= maxEras {
		k.known = make(map[string]*fallback)
	}
	k.known[whose] = f
}

// proposals are the revisions that one initialize proposes to the server, one after the
// other until the server accepts one.
type proposals struct {
	of    *fallbacks
	whose string
	known *fallback // nil for none

	client *translate.Revision
	list   []*translate.Revision // still to be proposed
	now    *translate.Revision
	count  int
	given  bool // the server has named what it takes
	denied bool // it has refused the newest one
}

// steps are the proposals for h's client. The client's own revision is not the first of
// them: published servers accept an older revision and still send what it lacks.
func (k *fallbacks) steps(h *handshake, named *translate.Revision) *proposals {
	p := &proposals{of: k, whose: credential(h.header), client: h.vc}
	if v := translate.Lookup(h.srv.now().cfg.Upstream.Version); v != nil && !v.Modern {
		p.list = []*translate.Revision{v}
		return p
	}
	p.known = k.of(h.header)
	all := translate.Handshake() // newest first
	var list []*translate.Revision
	if p.known != nil && h.vc != all[0] {
		list = append(list, h.vc)
	}
	if p.known != nil {
		list = append(list, p.known.accepted)
	}
	list = append(append(list, named, all[0], h.vc), all...)
	for _, r := range list {
		if r != nil && !r.Modern && !slices.Contains(p.list, r) {
			p.list = append(p.list, r)
		}
	}
	return p
}

// next is the revision to propose now. There is one at first, and after each goOn.
func (p *proposals) next() *translate.Revision {
	p.now, p.list = p.list[0], p.list[1:]
	p.count++
	return p.now
}

func (p *proposals) first() bool { return p.count == 1 }

// only makes r, which the server has named when it refused another revision, the last
// one to be proposed. It reports false where that has been done already.
func (p *proposals) only(r *translate.Revision) bool {
	if p.given || r == p.now {
		return false
	}
	p.given, p.list = true, []*translate.Revision{r}
	return true
}

// goOn reports whether to propose another revision after this answer, or the error in
// its place.
func (p *proposals) goOn(m *wire.Message, err error) bool {
	refused, closed := refusesProposal(m, err)
	// A process that ends whatever it is told is not started again and again: where it
	// ends on the client's own revision, the revision is not to blame.
	again := refused && !p.given && len(p.list) > 0 && !(closed && p.now == p.client)
	if again && p.now == translate.Latest() {
		p.denied = true
	}
	if !again && p.known != nil {
		p.of.set(p.whose, nil)
	}
	return again
}

// accepted notes that the server has answered the last proposal with this result.
func (p *proposals) accepted(m *wire.Message) {
	server := gjson.Get(wire.View(m.Result()), "serverInfo").Raw
	switch latest := translate.Latest(); {
	case p.denied, p.known != nil && p.now != latest && p.known.server == server && p.now.Newer(p.known.accepted):
		p.of.set(p.whose, &fallback{p.now, strings.Clone(server)})
	case p.known != nil && (p.now == latest || p.known.server != server):
		p.of.set(p.whose, nil) // it has changed: the next session proposes the newest one
	}
}

// refusesProposal reports whether an answer to initialize, or the error in its place,
// may mean that the server does not take the revision. closed says that it ended the
// connection instead of answering.
func refusesProposal(m *wire.Message, err error) (refused, closed bool) {
	if err == nil {
		return m.Kind == wire.Error, false
	}
	if status, ok := errors.AsType[*upstream.StatusError](err); ok {
		return status.Code >= 400 && status.Code <= 500 && !isInconclusive(status.Code), false
	}
	if _, exited := errors.AsType[*upstream.ExitError](err); exited {
		return true, true
	}
	closed = !upstream.NeverSent(err) && (errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) ||
		errors.Is(err, syscall.ECONNRESET) || errors.Is(err, upstream.ErrLost))
	return closed, closed
}
