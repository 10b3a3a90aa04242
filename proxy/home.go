package proxy

import (
	"errors"
	"net/netip"
	"net/url"

	"github.com/dragoman-proxy/dragoman/proxy/downstream"
	"github.com/dragoman-proxy/dragoman/proxy/mcp"
	"github.com/dragoman-proxy/dragoman/proxy/sealed"
)

// introduceIn puts into an id what another process has to know to take the session
// up: who the client is, as far as there is room, and where all the rest is.
func (c *modernConn) introduceIn(t *sealed.Session) {
	t.Home = c.srv.dialogues.instance
	t.Introduce(string(c.client), string(c.can))
}

// serverIsBeside reports whether the server is on this machine, or in this pod, while
// there are replicas elsewhere: then it is another server that each of them has, which
// does not know the sessions of this one.
func (srv *Server) serverIsBeside() bool {
	at, err := url.Parse(srv.now().cfg.Upstream.URL)
	if err != nil || !srv.peers.configured() {
		return false
	}
	ip, err := netip.ParseAddr(at.Hostname())
	return at.Hostname() == "localhost" || err == nil && ip.Unmap().IsLoopback()
}

// goesHome has a request answered by the process that its session began in, where that
// has what no id can hold: the server's own process, a server beside it, or, of a session
// with a server that knows none, the log level, the subscriptions and the questions to its client. Where the
// process is gone, or there is no way to it, a session of the last kind is taken up here,
// and what only that process knew is lost; the others are over.
func (srv *Server) goesHome(method string, req *downstream.Request, resp *downstream.Response) bool {
	if req.Session == "" || req.Forwarded || !srv.peers.configured() {
		return false
	}
	home, ok := srv.sessions.home(req.Session, srv.ownerOf(req))
	if !ok || home == srv.dialogues.instance {
		return false
	}
	err := srv.forward(home, method, req, resp)
	switch {
	case errors.Is(err, errNotTaken), err != nil && method == "GET" && asFailure(err).Cause == mcp.PeerLost:
		return false
	case err != nil:
		srv.refuse(req, resp, srv.report(err, requestInfo{}).WithinSession())
	}
	return true
}
