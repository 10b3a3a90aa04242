package proxy

import (
	"bytes"
	"context"
	"errors"

	"github.com/tidwall/gjson"

	"github.com/dragoman-proxy/dragoman/proxy/clienterror"
	"github.com/dragoman-proxy/dragoman/proxy/mcp"
	"github.com/dragoman-proxy/dragoman/proxy/upstream"
	"github.com/dragoman-proxy/dragoman/translate"
	"github.com/dragoman-proxy/dragoman/translate/wire"
)

// turned reports whether the server turns out to be of the other era than it was
// assumed to be by who was refused with err: it may have been replaced. Where err
// gives reason to doubt, the server is asked anew.
func (srv *Server) eraChanged(ctx context.Context, header []upstream.Header, modern bool, err error) bool {
	if srv.eras.fixed() != nil || !doubtful(modern, err) && !saysEra(err) {
		return false
	}
	if known := srv.eras.peek(header); known != nil && known.serves(modern) {
		srv.eras.drop(header, known)
	}
	now, err := srv.upstreamEra(ctx, header)
	return err == nil && !now.serves(modern)
}

// isModern finds out anew whether the server needs no session. A process is asked
// itself.
func (c *modernConn) isModern(ctx context.Context, header []upstream.Header) (bool, error) {
	if !c.web {
		_, err := c.discover(ctx, header)
		return err == nil, err
	}
	if known := c.srv.eras.peek(header); known != nil {
		c.srv.eras.drop(header, known)
	}
	now, err := c.srv.upstreamEra(ctx, header)
	return err == nil && now.modern(), err
}

// isUnsupported reports whether an error is about the revision.
func isUnsupported(message []byte) bool {
	return gjson.GetBytes(message, "error.code").Int() == mcp.CodeUnsupportedVersion
}

// serves reports whether the server takes requests without a session, or sessions.
func (e *serverEra) serves(modern bool) bool {
	if modern {
		return e.modern()
	}
	return e.shakes
}

// doubtful reports whether a refusal is one that a server of the era would not give,
// which is modern or not.
func doubtful(modern bool, err error) bool {
	code, body := 0, []byte(nil)
	if status, ok := errors.AsType[*upstream.StatusError](err); ok {
		code, body = status.Code, status.Body
	}
	if code < 400 || code > 499 || isInconclusive(code) {
		return false
	}
	var m wire.Message
	isError := m.Scan(bytes.Clone(body), nil) == nil && m.Kind == wire.Error
	rpc := 0
	if isError {
		rpc = int(gjson.Get(wire.View(m.Error()), "code").Int())
	}
	switch rpc {
	case mcp.CodeUnsupportedVersion:
		return true
	case mcp.HeaderMismatch.Code(), mcp.CapabilityMissing.Code():
		return !modern
	case mcp.CodeMethodNotFound, mcp.CodeInvalidParams:
		return !modern && bytes.Contains(body, []byte(mcp.MetaPrefix))
	}
	return modern || bytes.Contains(body, []byte(mcp.MetaPrefix)) || bytes.Contains(body, []byte(translate.Modern()))
}

// orOtherEra is err, with which a handshake has ended, or that the server has none
// any more, if that was why.
func (srv *Server) orOtherEra(ctx context.Context, header []upstream.Header, was *serverEra, err error) error {
	if !was.shakes || isAway(err) || srv.eras.fixed() != nil {
		return err
	}
	now, failed := srv.upstreamEra(ctx, header)
	if failed != nil || now.shakes {
		return err
	}
	f := mcp.Fail(mcp.UpstreamModern, now.revision.Name)
	f.Err = err
	return f
}

// saysEra reports whether it is us who found that the server is of the other era.
func saysEra(err error) bool {
	c := clienterror.Of(err).Cause
	return c == mcp.UpstreamModern || c == mcp.UpstreamLegacy
}

// isOtherEra reports whether err says that the server needs no session, where one was
// to begin.
func isOtherEra(err error) bool { return err != nil && clienterror.Of(err).Cause == mcp.UpstreamModern }

// outlived is the error for the client of such a session, which may begin a new one.
func outlived() *mcp.Failure {
	f := mcp.Fail(mcp.SessionUnknown, "the server is another one by now; initialize again")
	f.Err = clienterror.ErrEraChanged
	return f
}

// outlives makes err the end of x's session, if it says that the server has no
// sessions any more.
func (x *exchange) outlives(err error) error {
	if _, bridged := x.s.conn.(*modernConn); bridged || x.s.piped || x.s.id == "" && x.s.pipe == 0 || !doubtful(false, err) {
		return err
	}
	if x.srv.eraChanged(x.ctx, x.from, false, err) {
		return outlived()
	}
	return err
}
