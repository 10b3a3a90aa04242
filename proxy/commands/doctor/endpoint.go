package doctor

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/tidwall/gjson"
	"go.uber.org/zap"

	"github.com/dragoman-proxy/dragoman/adapterrt/pattern"
	"github.com/dragoman-proxy/dragoman/proxy/config"
	"github.com/dragoman-proxy/dragoman/proxy/transport/upstream"
	"github.com/dragoman-proxy/dragoman/translate"
)

// whenSlow is what to do about a server that does not answer in time.
const whenSlow = "is this an MCP endpoint? the server's own log says more; upstream.handshake_timeout if it needs so long"

// refusal returns the JSON-RPC error that the body of a refused request holds, or nil.
func refusal(err error) []byte {
	status, is := errors.AsType[*upstream.StatusError](err)
	if !is || status.Code == http.StatusUnauthorized || status.Code == http.StatusForbidden {
		return nil
	}
	if gjson.ValidBytes(status.Body) && gjson.GetBytes(status.Body, "error.code").Exists() && gjson.GetBytes(status.Body, "jsonrpc").Str == "2.0" {
		return status.Body
	}
	return nil
}

var sessionWords = pattern.Later(`(?i)\bsession|\binitializ|\bprotocol.version|\bjson-?rpc\b`)

// wantsSession reports whether a refusal is that of an MCP server to a request that belongs to no session.
func wantsSession(s *upstream.StatusError) bool {
	return s.Code >= 400 && s.Code < 500 && sessionWords().Match(s.Body[:min(len(s.Body), 1024)])
}

// serves reports whether there is an MCP endpoint at the URL of cfg, or with streams a stream of HTTP+SSE. Else it begins no session.
func (e *exam) serves(ctx context.Context, cfg config.Config, streams bool) bool {
	o, err := e.world.Of(cfg, zap.NewNop())
	if err != nil {
		return false
	}
	defer o.Close()
	e.sent = &o.Credentials.Sent
	s := &session{connection: newConnection(o.Dialer.HTTP().Unknown().Begun(), time.Now()), revision: translate.Latest()}
	defer s.close()
	_, err = s.request(ctx, greetingID, "ping", "{}")
	status, refused := errors.AsType[*upstream.StatusError](err)
	switch {
	case err == nil, refusal(err) != nil, refused && (status.Code == http.StatusUnauthorized || wantsSession(status)):
		return true
	}
	return streams && upstream.TakesNoPost(err) && o.Dialer.Peek(ctx) == nil
}
