package clients

import (
	"strings"

	"github.com/dragoman-proxy/dragoman/proxy/features/shape"
	"github.com/dragoman-proxy/dragoman/proxy/ops/trace"
	"github.com/dragoman-proxy/dragoman/proxy/pipes/mcpheader"
	"github.com/dragoman-proxy/dragoman/proxy/protocol/mcp"
	"github.com/dragoman-proxy/dragoman/proxy/replicas/principal"
	"github.com/dragoman-proxy/dragoman/proxy/transport/downstream"
)

// CarriedHeaders returns the headers of a client's request that another replica may need.
func (p *Proxy) CarriedHeaders(req *downstream.Request) (list []mcp.Header) {
	if req.Headers != nil {
		req.Headers(mcpheader.Prefix, func(name, value string) {
			if !strings.EqualFold(name, "Mcp-Session-Id") && !strings.EqualFold(name, "MCP-Protocol-Version") { // these have fields of their own
				list = append(list, mcp.Header{Name: name, Value: value})
			}
		})
	}
	if req.Header == nil {
		return list
	}
	list = p.AppendPassed(list, req.Header)
	for _, name := range p.Adapters.CallerHeaders() {
		if v := req.Header(name); v != "" && mcp.HeaderValue(list, name) == "" {
			list = append(list, mcp.Header{Name: name, Value: v})
		}
	}
	for _, name := range []string{principal.Header(p.Now().Config.Bridge.Principal), "Mcp-Method", "Mcp-Name", shape.BudgetHeader, trace.TimingHeader} {
		if v := req.Header(name); v != "" && mcp.HeaderValue(list, name) == "" {
			list = append(list, mcp.Header{Name: name, Value: v})
		}
	}
	return list
}
