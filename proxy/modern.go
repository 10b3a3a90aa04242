package proxy

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"strings"

	"github.com/tidwall/gjson"
	"github.com/tidwall/sjson"

	"github.com/dragoman-proxy/dragoman/proxy/clienterror"
	"github.com/dragoman-proxy/dragoman/proxy/downstream"
	"github.com/dragoman-proxy/dragoman/proxy/large"
	"github.com/dragoman-proxy/dragoman/proxy/mcp"
	"github.com/dragoman-proxy/dragoman/proxy/mcpheader"
	"github.com/dragoman-proxy/dragoman/proxy/quota"
	"github.com/dragoman-proxy/dragoman/proxy/report"
	"github.com/dragoman-proxy/dragoman/proxy/results"
	"github.com/dragoman-proxy/dragoman/proxy/upstream"
	"github.com/dragoman-proxy/dragoman/translate"
	"github.com/dragoman-proxy/dragoman/translate/wire"
)

// modernRequest is a request of a modern client. The request itself says who sends it, in which
// revision, and what the client can do. See
// https://modelcontextprotocol.io/specification/2026-07-28/basic#meta. It owns its memory.
type modernRequest struct {
	raw    []byte // the message as it was sent
	spare  []byte // memory for a copy of raw; nil for none
	id     []byte
	method wire.Method
	name   string // the name of the method
	target []byte // what the method is applied to: params.name or params.uri as JSON; nil if there is neither

	arguments []byte // arguments of a tool call; nil for none
	plainName bool   // Mcp-Name should have been encoded, but was not

	client       []byte // clientInfo; nil for none
	capabilities []byte
	facts        wire.Facts   // the facts in capabilities
	level        mcp.LogLevel // the level of log messages that the client wants; mcp.NoLogLevel for none
	token        []byte       // the progressToken; nil for none

	state  []byte // requestState, a JSON string; nil for none
	inputs []byte // inputResponses; nil for none

	task taskPlan // whether a tool call becomes a task

	runsFor   string            // the client that the process is counted for
	user      string            // the user that may answer the server's questions
	address   string            // the peer's address; "" on a pipe, and if another replica forwarded the request
	unknown   bool              // only the client itself says who it is
	header    []upstream.Header // the HTTP headers that describe the message, as they came; nil on a pipe
	maxTokens int               // the budget that a header asks for; 0 for none
	timed     bool              // a header asks for the timing
	counts    *tally            // counts the call; nil if the call is not counted
}

// lookModern reads a scanned request. The result points into m, and has only the facts that the
// client has declared. header is the value of MCP-Protocol-Version, or "" if there are no headers.
// The error is for the client, about its _meta or its revision.
func lookModern(m *wire.Message, header string) (*modernRequest, error) {
	q, err := readMeta(wire.View(m.Params()), targetOf(m.Method), header)
	if err != nil {
		return nil, clienterror.Of(err).About(m.ID())
	}
	q.raw, q.id = m.Raw, m.ID()
	q.method, q.name = m.Method, wire.View(m.MethodName())
	return q, nil
}

// own returns a copy of q with memory for the message, and as much again for the message to the
// server.
func (q *modernRequest) own(ctx context.Context, memory *large.Memory) (*modernRequest, error) {
	room, err := memory.Alloc(ctx, large.RequestWait, large.RequestCopy, 2*len(q.raw))
	if err != nil {
		return nil, clienterror.Of(err).About(q.id)
	}
	o := q.sender()
	room = append(room, q.raw...)
	o.raw, o.spare = room[:len(room):len(room)], room[len(room):]
	o.arguments, o.state, o.inputs = moved(q.arguments, q.raw, o.raw), moved(q.state, q.raw, o.raw), moved(q.inputs, q.raw, o.raw)
	return o, nil
}

// sender returns a copy of q without the message.
func (q *modernRequest) sender() *modernRequest {
	o := *q
	o.raw, o.spare, o.arguments, o.state, o.inputs = nil, nil, nil, nil, nil
	o.name = strings.Clone(q.name)
	for _, part := range []*[]byte{&o.id, &o.target, &o.client, &o.capabilities, &o.token} {
		*part = bytes.Clone(*part)
	}
	o.facts = mcp.ClientFacts(gjson.ParseBytes(o.capabilities))
	return &o
}

// forServer returns a copy of q's message that may be rewritten. Only one such copy may be in use
// at a time.
func (q *modernRequest) forServer() []byte {
	if cap(q.spare) < len(q.raw) {
		return bytes.Clone(q.raw)
	}
	return append(q.spare[:0], q.raw...)
}

// targetOf returns the member of params that names what a method is applied to, or "" if there is
// none.
func targetOf(method wire.Method) string {
	switch method {
	case wire.ToolsCall, wire.PromptsGet:
		return "name"
	case wire.ResourcesRead:
		return "uri"
	case wire.TasksGet, wire.TasksUpdate, wire.TasksCancel:
		return "taskId"
	}
	return ""
}

// readMeta reads the members of params; target is the member that Mcp-Name repeats. Clients may
// rely on the order of its checks: the required members of _meta, the revision in the header,
// whether dragoman supports the revision.
func readMeta(params, target, header string) (*modernRequest, error) {
	q := &modernRequest{level: mcp.NoLogLevel}
	version := ""
	var broken string // the first member with an invalid value
	mcp.Members(params, func(name string, v gjson.Result) {
		switch name {
		case "_meta":
			mcp.Members(v.Raw, func(name string, v gjson.Result) {
				good := true // a member that occurs twice is invalid: the server may read the other one
				switch name {
				case mcp.MetaVersion:
					good = v.Type == gjson.String && version == ""
					version = v.String()
				case mcp.MetaCapabilities:
					good = v.IsObject() && q.capabilities == nil
					q.capabilities = wire.Bytes(v.Raw)
				case mcp.MetaClient:
					good = v.IsObject() && q.client == nil
					q.client = wire.Bytes(v.Raw)
				case mcp.MetaLogLevel:
					good = q.level == mcp.NoLogLevel
					q.level = mcp.LogLevelOf(v.String())
					good = good && q.level != mcp.NoLogLevel
				case "progressToken":
					good = (v.Type == gjson.String || v.Type == gjson.Number) && q.token == nil
					q.token = wire.Bytes(v.Raw)
				}
				if !good && broken == "" {
					broken = name
				}
			})
		case target:
			q.target = wire.Bytes(v.Raw)
		case "requestState":
			q.state = wire.Bytes(v.Raw)
		case "inputResponses":
			q.inputs = wire.Bytes(v.Raw)
		case "arguments":
			q.arguments = wire.Bytes(v.Raw)
		}
	})
	switch {
	case version == "" && broken == "":
		broken = mcp.MetaVersion
	case broken == "" && q.capabilities == nil:
		broken = mcp.MetaCapabilities
	}
	if broken != "" {
		f := mcp.Fail(mcp.MetaInvalid, "")
		f.Text += ": " + broken
		return nil, f
	}
	if header != "" && header != version {
		return nil, mcpheader.Mismatch("MCP-Protocol-Version", "_meta")
	}
	if r := translate.Lookup(version); r == nil || !r.Modern {
		return nil, unsupported(version)
	}
	return q, nil
}

// unsupported returns the error for a modern revision that dragoman does not support. It lists the
// supported ones.
func unsupported(requested string) *mcp.Failure {
	f := mcp.Fail(mcp.RevisionUnsupported, "")
	data := []byte(`{"supported":[`)
	for i, r := range translate.All() {
		if i > 0 {
			data = append(data, ',')
		}
		data = mcp.AppendString(data, r.Name)
	}
	data = append(data, `],"requested":`...)
	f.Data = append(mcp.AppendString(data, fmt.Sprintf("%.64s", requested)), '}')
	return f
}

// listing returns err for a client of a modern server: if err lists the supported revisions,
// listing replaces them by those in the server's own DiscoverResult.
func (srv *Server) listing(err error, from []upstream.Header) error {
	f, ok := errors.AsType[*mcp.Failure](err)
	if !ok || f.Cause != mcp.RevisionUnsupported {
		return err
	}
	known := srv.eras.Peek(from)
	if known == nil || !known.Modern() {
		return err
	}
	names := []byte{'['}
	gjson.GetBytes(known.Discovered, "supportedVersions").ForEach(func(_, v gjson.Result) bool {
		if translate.Lookup(v.String()) != nil {
			names = append(mcp.AppendString(names, v.String()), ',')
		}
		return true
	})
	if len(names) == 1 {
		names = append(mcp.AppendString(names, known.Revision.Name), ',')
	}
	names[len(names)-1] = ']'
	if data, err := sjson.SetRawBytes(f.Data, "supported", names); err == nil {
		f.Data = data
	}
	return f
}

// mayAsk reports whether the server may ask the client something before it answers: the method
// allows it, and the client has declared a capability for it.
func (q *modernRequest) mayAsk() bool {
	switch q.method {
	case wire.ToolsCall, wire.PromptsGet, wire.ResourcesRead:
		return q.canBeAsked()
	}
	return false
}

// holder returns the client whose share of the common limits the request uses.
func (q *modernRequest) holder(who string) quota.Holder {
	if !q.unknown {
		return quota.Holder{Principal: who}
	}
	return quota.Holder{Principal: who, Address: q.address}
}

// canBeAsked reports whether the client can answer any kind of question.
func (q *modernRequest) canBeAsked() bool {
	return q.facts.Has(wire.ClientElicitation) || q.facts.Has(wire.ClientSampling) || q.facts.Has(wire.ClientRoots)
}

// digest returns a hash of what a retry must have in common with the original request: everything
// except the answers to the server's questions.
func (q *modernRequest) digest() [sha256.Size]byte {
	return results.Digest(q.name, gjson.GetBytes(q.raw, "params").Raw)
}

// headers notes the headers that describe the message, except Mcp-Session-Id, since there is no
// session, and MCP-Protocol-Version, which the connection to the server sets.
func (q *modernRequest) headers(req *downstream.Request) {
	q.header = []upstream.Header{}
	if req.Headers == nil {
		return
	}
	req.Headers(mcpPrefix, func(name, value string) {
		if !strings.EqualFold(name, "Mcp-Session-Id") && !strings.EqualFold(name, "MCP-Protocol-Version") {
			q.header = append(q.header, upstream.Header{Name: name, Value: value})
		}
	})
}

// handshakeOnly reports whether only handshake revisions have the method.
func handshakeOnly(m wire.Method) bool {
	switch m {
	case wire.Initialize, wire.Ping, wire.LoggingSetLevel, wire.ResourcesSubscribe, wire.ResourcesUnsubscribe:
		return true
	}
	return false
}

func unknownMethod(name string) *mcp.Failure {
	return mcp.Fail(mcp.MethodUnknown, fmt.Sprintf("%.100s", name))
}

// checkHeaders compares the headers of a modern request with its body. Proxies may decide by the
// headers without reading the body, so a request whose headers differ is refused. See
// https://modelcontextprotocol.io/specification/2026-07-28/basic/transports#standard-request-headers.
func (q *modernRequest) checkHeaders(header func(name string) string) error {
	if name := mcpheader.Repeated(q.header); name != "" {
		f := mcp.Fail(mcp.HeaderMismatch, "")
		f.Text = fmt.Sprintf("the %.100s header occurs more than once", name)
		return f
	}
	if method := header("Mcp-Method"); method != q.name {
		return mcpheader.Mismatch("Mcp-Method", "the method")
	}
	what := targetOf(q.method)
	if what == "" {
		return nil
	}
	what = "params." + what
	value := header("Mcp-Name")
	if target := gjson.ParseBytes(q.target); target.Type == gjson.String {
		ok, plain := mcpheader.IsName(value, target.String())
		q.plainName = plain
		if !ok {
			return mcpheader.Mismatch("Mcp-Name", what)
		}
	} else if _, ok := mcpheader.Decode(value); !ok {
		return mcpheader.Mismatch("Mcp-Name", what)
	}
	return nil
}

// missingVersion returns the error for a request without MCP-Protocol-Version.
func missingVersion() *mcp.Failure {
	f := mcp.Fail(mcp.HeaderMismatch, "")
	f.Text = "Missing required header: MCP-Protocol-Version"
	return f
}

func (q *modernRequest) requestInfo(from []upstream.Header) report.At {
	return report.At{Method: q.name, Client: translate.Lookup(translate.Modern()), Header: from}
}
