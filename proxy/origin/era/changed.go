package era

import (
	"bytes"
	"context"
	"errors"

	"github.com/tidwall/gjson"

	"github.com/dragoman-proxy/dragoman/proxy/ops/report"
	"github.com/dragoman-proxy/dragoman/proxy/protocol/mcp"
	"github.com/dragoman-proxy/dragoman/proxy/transport/upstream"
	"github.com/dragoman-proxy/dragoman/translate"
	"github.com/dragoman-proxy/dragoman/translate/wire"
)

// Changed reports whether the server no longer serves the era of a request that it refused with err: a
// request without a session if modern is true, else one in a session. The server may have been replaced.
// Changed asks the server again if err gives reason to doubt the era, and otherwise returns false.
func (p *Cache) Changed(ctx context.Context, header []mcp.Header, modern bool, err error) bool {
	if !modern && errors.Is(err, report.ErrOthersState) { // perhaps the server has made it: another replica may know its era better
		if p.Fixed() != nil || len(p.host.Config().Upstream.Command) > 0 {
			return false
		}
		now, err := p.Recheck(ctx, header)
		return err == nil && now
	}
	if p.Fixed() != nil || !Doubtful(modern, err) && !saysEra(err) {
		return false
	}
	if known := p.Peek(header); known != nil && known.Serves(modern) {
		p.Drop(header, known)
	}
	now, err := p.Of(ctx, header)
	if err == nil && !modern && now.Handshake == Untried {
		how := p.shake(ctx, header)
		p.Prove(header, how)
		return how == Refused
	}
	return err == nil && !now.Serves(modern)
}

// Recheck forgets the server's era and asks a server over HTTP again. modern reports whether it serves requests
// without a session. The error is that of [Cache.Of].
func (p *Cache) Recheck(ctx context.Context, header []mcp.Header) (modern bool, err error) {
	if known := p.Peek(header); known != nil {
		p.Drop(header, known)
	}
	now, err := p.Of(ctx, header)
	return err == nil && now.Modern(), err
}

// Serves reports whether the server is of one era: if modern is true, whether it accepts requests without a
// session, otherwise whether it accepts initialize.
func (e *Era) Serves(modern bool) bool {
	if modern {
		return e.Modern()
	}
	return e.Handshake != Refused
}

// Doubtful reports whether err is a refusal that a server of this era would not send.
func Doubtful(modern bool, err error) bool {
	code, body := 0, []byte(nil)
	if status, ok := errors.AsType[*upstream.StatusError](err); ok {
		code, body = status.Code, status.Body
	}
	if code < 400 || code > 499 || Inconclusive(code) {
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

// OrChanged returns the error to report for a handshake that failed with err. was is the server's era before the
// handshake. If the server no longer accepts initialize, the error says so; otherwise it is err itself.
func (p *Cache) OrChanged(ctx context.Context, header []mcp.Header, was *Era, err error) error {
	if was.Handshake != Accepted || report.Unreachable(err) || p.Fixed() != nil {
		return err
	}
	now, failed := p.Of(ctx, header)
	if failed != nil || !now.Modern() || now.Handshake == Accepted {
		return err
	}
	f := mcp.Fail(mcp.UpstreamModern, now.Revision.Name)
	f.Err = err
	return f
}

// saysEra reports whether err is dragoman's own finding that the server is of the other era.
func saysEra(err error) bool {
	c := report.FailureOf(err).Cause
	return c == mcp.UpstreamModern || c == mcp.UpstreamLegacy
}

// IsModern reports whether err, the failure to begin a session, says that the server has no sessions.
func IsModern(err error) bool { return err != nil && report.FailureOf(err).Cause == mcp.UpstreamModern }

// Outlived returns the error for a client in a session of an era that the server no longer serves. The client may
// begin a new session.
func Outlived() *mcp.Failure {
	f := mcp.Fail(mcp.SessionUnknown, "the server is another one by now; initialize again")
	f.Err = report.ErrEraChanged
	return f
}
