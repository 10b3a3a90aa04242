package proxy

import (
	"context"

	"github.com/dragoman-proxy/dragoman/proxy/toolindex"
	"github.com/dragoman-proxy/dragoman/proxy/upstream"
	"github.com/dragoman-proxy/dragoman/translate/wire"
)

// paramPrefix is what the names of headers begin with that repeat arguments of a tool. See
// https://modelcontextprotocol.io/specification/2026-07-28/basic/transports#custom-headers-from-tool-parameters.
const paramPrefix = "Mcp-Param-"

// paramHeaders are the headers that a call of tool has from its arguments. A tool
// that is not known is looked up in the server's list first.
func (c *modernConn) paramHeaders(ctx context.Context, tool string, arguments []byte, from []upstream.Header) ([]upstream.Header, error) {
	t, err := c.tools.Look(ctx, tool, func(params string) ([]byte, error) {
		return c.inquire(ctx, wire.ToolsList, params, from)
	})
	if err != nil && ctx.Err() != nil {
		return nil, err
	}
	return headersOf(t.Arguments, arguments)
}

// knows reports whether a call of tool is sent without a look at the server's list.
func (c *modernConn) knows(tool string) bool {
	_, known := c.tools.Find(tool)
	return known || !c.web
}

// headersOf are the headers of a call with these arguments.
func headersOf(list []toolindex.Argument, arguments []byte) ([]upstream.Header, error) {
	var h []upstream.Header
	for _, a := range list {
		text, ok, err := a.Text(arguments)
		if err != nil {
			return nil, tooLarge(a)
		}
		if ok {
			h = append(h, upstream.Header{Name: paramPrefix + a.Header, Value: encodeHeader(text)})
		}
	}
	return h, nil
}
