package exchange

import (
	"bytes"
	"net/http"

	"github.com/dragoman-proxy/dragoman/proxy/origin/restart"
	"github.com/dragoman-proxy/dragoman/proxy/protocol/mcp"
	"github.com/dragoman-proxy/dragoman/proxy/transport/upstream"
	"github.com/dragoman-proxy/dragoman/translate/wire"
)

// maxSaidLost is the size of the largest response that may say that the session is lost.
const maxSaidLost = 4 << 10

// saidLost is the response to a request, with the status 200, which says that the server has lost the session.
type saidLost struct{ response, fault []byte }

func (*saidLost) Error() string { return "the server says that it has lost the session" }

// doubtsSession reports whether m, an error of the server, is the whole response to x's request and says that the server has lost the
// session. Then mend finds out whether it has.
func (x *Exchange) doubtsSession(m *wire.Message, raw []byte) bool {
	if x.doubted || x.resent || x.answered || x.Call == nil || x.Stream == nil || len(x.rest) != 1 || len(raw) > maxSaidLost || !x.Stream.Whole() {
		return false
	}
	conn, named := x.Session.Conn.(restart.Named)
	if !named || conn.SessionID() == "" {
		return false
	}
	session := conn.SessionID()
	if c := x.Session.Renewing; c != nil && c.Number() != x.began {
		session = "" // another request has found that out already
	}
	id := m.ID()
	x.key = wire.AppendIDKey(x.key[:0], id)
	about := id == nil || string(id) == "null" || string(x.key) == x.Call.Key
	if !about || !restart.SaysLost(m.Error(), session) {
		return false
	}
	x.doubted = true
	x.broken = &saidLost{bytes.Clone(raw), bytes.Clone(m.Error())}
	return true
}

// judgeSession returns the error of a request in a lost session if the server has lost it. Otherwise what the server said becomes the
// response.
func (x *Exchange) judgeSession(said *saidLost) error {
	clear(x.rest)
	x.rest, x.Msg.Raw = x.rest[:0], nil
	c, lost := x.Session.Renewing, &upstream.StatusError{Code: http.StatusNotFound, Body: said.response}
	replaced := func() bool { return c != nil && c.Number() != x.began }
	conn, _ := x.Session.Conn.(restart.Named)
	if !replaced() && restart.ConfirmLost(x.Ctx, conn, said.fault, x.From) || replaced() {
		x.Common.Host.Quirk(mcp.LostAs200)
		return lost
	}
	x.Stream.Close()
	x.Stream = upstream.Answered(said.response)
	return nil
}
