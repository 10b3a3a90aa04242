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

// goesHome has a request answered by the process that its session began in, where that
// has what no id can hold: the server's own process, or, of a session with a server that
// knows none, the log level, the subscriptions and the questions to its client. Where the
// process is gone, or there is no way to it, a session of the latter kind is taken up
// here, and what only that process knew is lost; one of the former is over.
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
