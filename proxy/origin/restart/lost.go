package restart

import (
	"bytes"
	"context"
	"strings"
	"time"

	"github.com/tidwall/gjson"

	"github.com/dragoman-proxy/dragoman/proxy/pipes"
	"github.com/dragoman-proxy/dragoman/proxy/protocol/mcp"
	"github.com/dragoman-proxy/dragoman/proxy/transport/upstream"
	"github.com/dragoman-proxy/dragoman/translate/wire"
)

// lostAnswers are the errors with which published servers answer a request in a session that they have lost, with the status 200.
// The text must be the whole message; SESSION in it stands for the id of the session.
var lostAnswers = [...]struct {
	code, text, servers string
}{
	{"-32005", "Session 'SESSION' not found or expired. Please re-initialize the connection.", "tower-mcp (Rust) 0.1 to 0.21; the id is null"},
	{"-32600", "missing or invalid Mcp-Session-Id", "Onyx agent-wiki until June 2026"},
}

// Named is a connection to a server that may have given the session an id.
type Named interface {
	upstream.Conn
	SessionID() string // "" for none
}

// SaysLost reports whether the error object of a response with the status 200 is one with which a server says that it has lost the
// session with this id; if the id is "", with any. [ConfirmLost] makes sure.
func SaysLost(fault []byte, session string) bool {
	said := gjson.GetManyBytes(fault, "code", "message")
	for _, a := range lostAnswers {
		before, after, named := strings.Cut(a.text, "SESSION")
		text := said[1].String()
		switch {
		case said[0].Raw != a.code:
		case !named && text == a.text, named && session != "" && text == before+session+after:
			return true
		case named && session == "" && len(text) > len(before)+len(after) && strings.HasPrefix(text, before) && strings.HasSuffix(text, after):
			return true
		}
	}
	return false
}

// pingTime is how long the answer to a ping may take that shows whether a session is lost.
const pingTime = 10 * time.Second

// ConfirmLost sends the server a ping in the session of conn, and reports whether the server answers it with an error of the same code
// and text as fault, which is the error of another request. A server that knows the session answers a ping with a result.
func ConfirmLost(ctx context.Context, conn Named, fault []byte, header []mcp.Header) (lost bool) {
	again := ping(ctx, conn, header)
	if again == nil {
		return false
	}
	was, is := gjson.GetManyBytes(fault, "code", "message"), gjson.GetManyBytes(again, "code", "message")
	return was[0].Raw == is[0].Raw && was[1].String() == is[1].String()
}

// ping sends the server a ping in the session of conn, and returns the error object of the answer, or nil if the answer is none.
func ping(ctx context.Context, conn Named, header []mcp.Header) (fault []byte) {
	ctx, cancel := context.WithTimeout(ctx, pingTime)
	defer cancel()
	o := &upstream.Outgoing{
		Body: mcp.Request(mcp.OwnID(), wire.Ping, "{}"), Request: true, Repeats: true, Header: header, FirstByte: pingTime, Silence: pingTime, Ours: true,
	}
	st, err := conn.Send(ctx, o)
	if err != nil {
		return nil
	}
	defer st.Close()
	var m wire.Message
	for e, err := range pipes.Before(ctx, st) {
		switch {
		case err != nil:
			return nil
		case len(e.Data) == 0 || m.Scan(e.Data, nil) != nil || !m.Kind.Response():
			continue
		case m.Kind == wire.Error:
			return bytes.Clone(m.Error())
		}
		return nil
	}
	return nil
}
