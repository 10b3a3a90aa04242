package web

import (
	"errors"
	"sync"

	"github.com/dragoman-proxy/dragoman/proxy/ops/report"
	"github.com/dragoman-proxy/dragoman/proxy/protocol/mcp"
	"github.com/dragoman-proxy/dragoman/proxy/replicas"
	"github.com/dragoman-proxy/dragoman/proxy/replicas/sealed"
	"github.com/dragoman-proxy/dragoman/proxy/session"
	"github.com/dragoman-proxy/dragoman/proxy/session/exchange"
	"github.com/dragoman-proxy/dragoman/proxy/transport/downstream"
	"github.com/dragoman-proxy/dragoman/translate/wire"
)

// forwardToOwner forwards a request to the process that its session began in, if that process has
// state which the session id cannot hold: the server's own process, a server on the same machine,
// or, for a modern server, the log level, the subscriptions and the open questions. It reports
// whether the request was answered. If the process cannot be reached, a session with a modern
// server goes on in another process, with what the store has of that state: its heir, or this one if
// there is no store. All other such sessions have ended.
//
// That this process holds a session does not say that it may go on with it: the process in which the session began may be there again,
// or another one may be its heir, as the store knows by now. Then only what is open here is served here.
func (f *Face) forwardToOwner(method string, req *downstream.Request, resp *downstream.Response) bool {
	if req.Session == "" || req.Twice != "" || !f.Replicas.Configured() { // a header twice is refused here
		return false
	}
	home, held, ok := f.Table.OwnerReplica(req.Session, f.OwnerOf(req))
	switch {
	case !ok:
		return false
	case home == f.Instance:
		return method == "POST" && f.forwardToHeir(held, req, resp)
	case req.Forwarded, held != nil && f.goesOn(held, home, req):
		return false
	}
	if method == "POST" {
		awaitAnswer(req)
	}
	for range maxHeirs {
		err := f.Forward(home, method, mcp.PeerLost, req, resp)
		if !errors.Is(err, replicas.ErrNotTaken) && (err == nil || method != "GET" || report.FailureOf(err).Cause != mcp.PeerLost) {
			if err != nil {
				f.Refuse(req, resp, f.Host.Report.Failed(err, report.At{}).About(exchange.IDOf(req.Body)).WithinSession())
			}
			return true
		}
		agreed := false
		if home, agreed = f.Table.Heir(req.Ctx, req.Session, home, f.Instance); home == f.Instance {
			if held != nil {
				held.Taken.Store(agreed)
			}
			break
		}
	}
	return false
}

// forwardToHeir forwards an answer or a cancellation about what is not open here, in the process in which the session began, to the heir that
// went on with the session while this one could not be reached, and may have asked the client, or called the server, since then.
func (f *Face) forwardToHeir(held *session.Session, req *downstream.Request, resp *downstream.Response) bool {
	if held == nil || held.Bridge == nil || wire.IsArray(req.Body) || !held.Bridge.MayConcern(req.Body) || !isElsewhere(held, req.Body) {
		return false
	}
	heir, ok := f.Table.HeirOf(req.Ctx, req.Session)
	if !ok || heir == f.Instance {
		return false
	}
	err := f.Forward(heir, "POST", mcp.PeerLost, req, resp)
	if err != nil && !errors.Is(err, replicas.ErrNotTaken) {
		f.Refuse(req, resp, f.Host.Report.Failed(err, report.At{}).WithinSession())
	}
	return !errors.Is(err, replicas.ErrNotTaken)
}

// isElsewhere reports whether a message is about what is not open in the session as this process holds it.
func isElsewhere(held *session.Session, body []byte) bool {
	m := messages.Get().(*wire.Message)
	defer func() {
		m.Trim()
		messages.Put(m)
	}()
	return m.Scan(body, nil) == nil && held.Bridge.IsElsewhere(m)
}

// goesOn reports whether a request of a session that began in the process home, but is held here, is served here: because this process
// is its heir, or because the request is about something that is open here.
func (f *Face) goesOn(held *session.Session, home sealed.ID, req *downstream.Request) bool {
	if held.Taken.Load() && !f.Replicas.Finds(home) {
		return true
	}
	if held.Bridge == nil || wire.IsArray(req.Body) {
		return false
	}
	m := messages.Get().(*wire.Message)
	defer func() {
		m.Trim()
		messages.Put(m)
	}()
	return m.Scan(req.Body, nil) == nil && held.Bridge.Awaits(m)
}

// messages has memory for messages that are read before an exchange has them.
var messages = sync.Pool{New: func() any { return new(wire.Message) }}

// awaitAnswer says that the response to a message may take long, if one is owed.
func awaitAnswer(req *downstream.Request) {
	if req.Await == nil {
		return
	}
	m := messages.Get().(*wire.Message)
	defer func() {
		m.Trim()
		messages.Put(m)
	}()
	switch {
	case wire.IsArray(req.Body):
		req.Await("null")
	case m.Scan(req.Body, nil) == nil && m.Kind == wire.Request && m.Method != wire.Initialize && m.Method != wire.ServerDiscover:
		req.Await(wire.View(m.ID()))
	}
}

// maxHeirs is how many processes of a session may be gone, one after the other, before it goes on here.
const maxHeirs = 3
