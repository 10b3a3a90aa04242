package handshake

import (
	"context"
	"fmt"

	"github.com/tidwall/gjson"
	"go.uber.org/zap"

	"github.com/dragoman-proxy/dragoman/proxy/origin/era"
	"github.com/dragoman-proxy/dragoman/proxy/protocol/mcp"
	"github.com/dragoman-proxy/dragoman/proxy/protocol/toolindex"
	"github.com/dragoman-proxy/dragoman/proxy/session"
	"github.com/dragoman-proxy/dragoman/proxy/transport/upstream"
	"github.com/dragoman-proxy/dragoman/translate/wire"
)

// hoist moves texts that the server's tools repeat into the instructions of answer, the response to
// initialize, if the configuration says so.
func (h *Handshake) hoist(ctx context.Context, s *session.Session, answer []byte) []byte {
	policy := h.Opener.Now().Footprint
	if !policy.Hoists() || !s.Facts.Has(wire.ServerTools) {
		return answer
	}
	tools, err := h.readTools(ctx, s)
	if err != nil {
		h.log().Warn("cannot read the server's tools to find repeated descriptions", zap.Error(err))
		return answer
	}
	return policy.Hoist(&s.Catalogue, tools, answer, h.log())
}

// readTools reads all pages of the server's tools. It sends notifications/initialized first; the
// client's own notification is then not sent to the server.
func (h *Handshake) readTools(ctx context.Context, s *session.Session) ([][]byte, error) {
	if s.Greeted {
		return h.tools, nil // read by an earlier caller
	}
	id := h.ID
	defer func() { h.ID = id }()
	initialized := mcp.Notification(wire.Initialized, "")
	if _, err := h.Conn.Send(ctx, &upstream.Outgoing{Body: initialized, Header: h.Header}); err != nil {
		return nil, err
	}
	s.Greeted = true
	list := toolindex.Ask{Of: s.ServerRevision, Page: func(params string) ([]byte, error) {
		h.ID = mcp.OwnID()
		m, _, err := era.Ask(ctx, &h.Opening, mcp.Request(h.ID, wire.ToolsList, "{"+params+"}"), s.ServerRevision)
		if err != nil {
			return nil, err
		}
		if m.Kind == wire.Error {
			return nil, fmt.Errorf("the server refuses tools/list: %s", gjson.Get(wire.View(m.Error()), "message").String())
		}
		return m.Result(), nil
	}}
	tools, err := list.Entries()
	if err != nil {
		return nil, err
	}
	h.tools = tools
	return tools, nil
}
