package proxy

import (
	"errors"

	"github.com/tidwall/gjson"

	"github.com/dragoman-proxy/dragoman/proxy/downstream"
)

// introduceIn puts into an id what another process has to know to take the session
// up: who the client is, as far as there is room, and where all the rest is.
func (c *modernConn) introduceIn(t *ticket) {
	t.home = c.srv.dialogues.instance
	if t.client = string(c.client); len(t.client) > maxIntroduced {
		said := gjson.GetMany(t.client, "name", "version")
		t.client = `{"name":` + said[0].Raw + `,"version":` + said[1].Raw + `}`
		if len(t.client) > maxIntroduced || !gjson.Valid(t.client) {
			t.client = ""
		}
	}
	if t.can = string(c.can); len(t.can) > maxIntroduced {
		t.can = ""
	}
}

// goesHome has a request of a session with a server that knows none answered by the
// process which the session began in: its log level, its subscriptions and the
// questions to its client are there. Where that is gone, or there is no way to it, the
// session is taken up here, and what only that process knew is lost.
func (srv *Server) goesHome(method string, req *downstream.Request, resp *downstream.Response) bool {
	if req.Session == "" || req.Forwarded || !srv.peers.configured() {
		return false
	}
	home, ok := srv.sessions.home(req.Session)
	if !ok || home == srv.dialogues.instance {
		return false
	}
	err := srv.forward(home, method, req, resp)
	switch {
	case errors.Is(err, errNotTaken):
		return false
	case err != nil:
		refuse(resp, err)
	}
	return true
}
