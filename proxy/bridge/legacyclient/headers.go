package legacyclient

import (
	"context"

	"github.com/tidwall/gjson"

	"github.com/dragoman-proxy/dragoman/proxy/mcpheader"
	"github.com/dragoman-proxy/dragoman/proxy/upstream"
	"github.com/dragoman-proxy/dragoman/translate/wire"
)

// paramHeaders returns the headers that a call of tool has from its arguments. If the tool
// is not known, it is looked up in the server's list first. call is the request.
func (c *Conn) paramHeaders(ctx context.Context, tool string, call []byte, from []upstream.Header) ([]upstream.Header, error) {
	t, err := c.tools.Look(ctx, tool, func(params string) ([]byte, error) {
		return c.inquire(ctx, wire.ToolsList, params, from)
	})
	if err != nil && ctx.Err() != nil {
		return nil, err
	}
	if len(t.Arguments) == 0 {
		return nil, nil
	}
	return mcpheader.Params(t.Arguments, wire.Bytes(gjson.Get(wire.View(call), "params.arguments").Raw))
}

// Knows reports whether a call of tool can be sent without reading the server's list first.
func (c *Conn) Knows(tool string) bool {
	_, known := c.tools.Find(tool)
	return known || !c.web
}
