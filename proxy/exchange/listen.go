package exchange

import (
	"errors"
	"net/http"

	"go.uber.org/zap"

	"github.com/dragoman-proxy/dragoman/proxy/clienterror"
	"github.com/dragoman-proxy/dragoman/proxy/mcp"
	"github.com/dragoman-proxy/dragoman/proxy/server"
	"github.com/dragoman-proxy/dragoman/proxy/upstream"
)

// Published SDKs close their client when a message of a session is answered with a 5xx.
// Within a session a failure of the server is therefore only the JSON-RPC error, with
// status 200. Other statuses tell the client what to do and stay: the challenges 401 and
// 403, 404 for a lost session, 429, and our own 503 with Retry-After.

// MayListenLater reports whether a server that has refused a standing stream may grant it later: after a failure whose status for
// the client is 500 or above, and after 409, with which a server says that the stream is still open, although its client has lost it.
func MayListenLater(err error) bool {
	return upstream.IsConflict(err) || clienterror.Of(err).Status >= http.StatusInternalServerError
}

// ListenLater is Listen for a standing stream that the server has refused for a reason that may pass. The client's
// stream stays open in the meantime, since published SDKs close their client, or ask again at once, if the stream is
// refused or ends. The server is asked again as [MayListenLater] says. After any other failure the stream ends: the client
// opens it again, and then receives the failure.
func (x *Exchange) ListenLater(o upstream.ListenOptions, client mcp.Peer) error {
	for again := new(server.Reopening); again.Wait(x.Ctx, 0) == nil; {
		st, err := x.Common.Listen(x.Ctx, x.Session, o)
		switch {
		case err == nil:
			x.Stream = st
			if x.Session.Renewing != nil {
				x.Session.Renewing.MayHaveMissed()
			}
			return x.Listen(client)
		case errors.Is(err, upstream.ErrNoStream), !MayListenLater(err):
			return nil
		}
		x.log().Debug("cannot open the server's standing stream: it is tried again", zap.Error(err))
	}
	return nil
}

// Listen sends the client the events of x's stream until it ends: first those that are kept for it.
func (x *Exchange) Listen(client mcp.Peer) error {
	for _, e := range x.replay {
		if err := client.Send(e); err != nil {
			return err
		}
	}
	x.replay = nil
	if x.Ctx.Err() != nil {
		return nil // what comes waits for the next stream
	}
	x.client = httpClient{x: x, to: client}
	last, err := x.Answer(&x.client)
	if err != nil {
		var ok bool
		if last, ok = x.late(err); !ok {
			return nil
		}
	}
	return x.client.Send(last)
}
