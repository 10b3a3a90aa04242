package session

import (
	"fmt"
	"strings"

	"github.com/tidwall/gjson"

	"github.com/dragoman-proxy/dragoman/proxy/bridge/stateless"
	"github.com/dragoman-proxy/dragoman/proxy/pipes/mcpheader"
	"github.com/dragoman-proxy/dragoman/proxy/protocol/crossing"
	"github.com/dragoman-proxy/dragoman/proxy/protocol/mcp"
	"github.com/dragoman-proxy/dragoman/proxy/transport/upstream"
	"github.com/dragoman-proxy/dragoman/translate"
	"github.com/dragoman-proxy/dragoman/translate/wire"
)

// Direct is the part of a session that exists only between a modern client and a modern
// server. It holds what is known of the server for one principal. Messages pass unchanged, by
// ordinary exchanges. See
// https://modelcontextprotocol.io/specification/2026-07-28/basic/transports.
type Direct struct {
	Web      bool               // the server is reached over HTTP
	Meta     []byte             // the members of _meta in dragoman's own requests, from the first client
	Crossing *crossing.Crossing // shared by all exchanges, and immutable
	Realm    string             // separates cached results from those of other sessions
}

// The methods of a Direct may be called on nil, for a session in which one side has the handshake.

// ServerAsks reports whether the server may send requests to the client.
func (d *Direct) ServerAsks() bool { return d == nil }

// Resumes reports whether a stream that the server has closed early can be continued.
func (d *Direct) Resumes() bool { return d == nil }

// Introduces reports whether clients ask what the server is after the session has begun, by server/discover.
func (d *Direct) Introduces() bool { return d != nil }

// CloseCancels reports whether the server takes a closed stream for the cancellation of its request.
func (d *Direct) CloseCancels() bool { return d != nil && d.Web }

// PassesRefusals reports whether the client gets the body of an HTTP error as the server sent it.
func (d *Direct) PassesRefusals() bool { return d != nil }

// Complete returns a result of dragoman's own, a JSON object with members, as the client's revision wants it.
func (d *Direct) Complete(result []byte) []byte {
	if d == nil {
		return result
	}
	return append([]byte(`{"resultType":"complete",`), result[1:]...)
}

// Status returns the HTTP status for a client of an error with this body, or 0 to keep the status that the server sent.
func (d *Direct) Status(body []byte) int {
	if d == nil || d.Web {
		return 0
	}
	return mcp.StatusFor(gjson.GetBytes(body, "error.code").Int())
}

// Own returns one of dragoman's own requests. params are without the braces, and from are the headers that the client's
// request passes on.
func (d *Direct) Own(id []byte, method wire.Method, params string, from []mcp.Header) *upstream.Outgoing {
	if d == nil {
		return &upstream.Outgoing{Body: mcp.Request(id, method, "{"+params+"}"), Request: true, Repeats: method.Reads(), Header: from}
	}
	header := d.Headers(from, method.String(), gjson.Get("{"+params+"}", "name").String())
	return &upstream.Outgoing{Body: d.Request(id, method, params), Request: true, Repeats: method.Reads(), Header: header}
}

// Request returns one of dragoman's own requests. params are its members besides _meta, without the
// braces.
func (d *Direct) Request(id []byte, method wire.Method, params string) []byte {
	if params != "" {
		params += ","
	}
	return mcp.Request(id, method, fmt.Sprintf(`{%s"_meta":{%s}}`, params, d.Meta))
}

// Headers returns the headers of one of dragoman's own requests, after those that the client's
// request passes on. It returns nil on a pipe.
func (d *Direct) Headers(from []mcp.Header, method, target string) []mcp.Header {
	if !d.Web {
		return nil
	}
	h := make([]mcp.Header, 0, len(from)+2)
	for _, f := range from {
		if len(f.Name) < len(mcpheader.Prefix) || !strings.EqualFold(f.Name[:len(mcpheader.Prefix)], mcpheader.Prefix) {
			h = append(h, f)
		}
	}
	h = append(h, mcp.Header{Name: "Mcp-Method", Value: mcpheader.Encode(method)})
	if target != "" {
		h = append(h, mcp.Header{Name: "Mcp-Name", Value: mcpheader.Encode(target)})
	}
	return h
}

// MetaOf returns the members of _meta for dragoman's own requests, without the braces: what the client that sends q says of
// itself, as far as a session keeps it.
func MetaOf(v *translate.Revision, q *stateless.Request) []byte {
	self := mcp.Self{Client: q.ClientInfo, Capabilities: q.Capabilities}
	self.Shorten()
	meta := fmt.Appendf(nil, `%q:%q,%q:`, mcp.MetaVersion, v.Name, mcp.MetaCapabilities)
	meta = append(meta, self.Capabilities...)
	if self.Client != nil {
		meta = append(fmt.Appendf(meta, `,%q:`, mcp.MetaClient), self.Client...)
	}
	return meta
}

// ServerInfo returns the serverInfo in a result, or nil if there is none.
func ServerInfo(result []byte) (is []byte) {
	mcp.Members(gjson.GetBytes(result, "_meta").Raw, func(name string, v gjson.Result) {
		if name == mcp.MetaServer && v.IsObject() {
			is = []byte(v.Raw)
		}
	})
	return is
}
