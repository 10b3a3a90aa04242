package probe

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/tidwall/gjson"

	"github.com/dragoman-proxy/dragoman/proxy/ops/host"
	"github.com/dragoman-proxy/dragoman/proxy/ops/report"
	"github.com/dragoman-proxy/dragoman/proxy/origin/era"
	"github.com/dragoman-proxy/dragoman/proxy/pipes"
	"github.com/dragoman-proxy/dragoman/proxy/protocol/mcp"
	"github.com/dragoman-proxy/dragoman/proxy/transport/upstream"
	"github.com/dragoman-proxy/dragoman/translate"
	"github.com/dragoman-proxy/dragoman/translate/wire"
)

// ToolList is what a server tells the model about its tools.
type ToolList struct {
	Tools        [][]byte // the entries of all pages of tools/list, as the server sent them
	Instructions string
}

// Tools reads the tools of the server, as a client that declares the capabilities in
// can. It calls no tool, and ends the session.
func Tools(ctx context.Context, srv Server, can Capabilities) (*ToolList, error) {
	p := newClient(srv, can)
	defer p.end()
	if err := p.begin(ctx, translate.Latest(), true); err != nil {
		return nil, err
	}
	if err := p.ask(ctx, Lists()[:1]); err != nil {
		return nil, err
	}
	l := &ToolList{Instructions: gjson.Get(wire.View(p.said), "result.instructions").String()}
	for _, tools := range p.lists {
		if tools.Refused != "" {
			return nil, fmt.Errorf("%s: %s", tools.Method, tools.Refused)
		}
		for _, item := range tools.Items {
			l.Tools = append(l.Tools, []byte(item))
		}
	}
	return l, nil
}

// client is a client that only reads lists.
type client struct {
	srv   Server
	can   Capabilities
	o     pipes.Opening
	facts wire.Facts // what the handshake has shown of the server
	vu    *translate.Revision
	said  []byte // the response to initialize, or an equivalent made from the DiscoverResult
	lists []List
}

// newClient returns a client without a session. The caller calls end.
func newClient(srv Server, can Capabilities) *client {
	return &client{srv: srv, can: can, o: pipes.Opening{Of: srv.Host(), NoRoots: true}}
}

// end closes the session.
func (p *client) end() {
	if p.o.Conn != nil {
		pipes.End(p.o.Conn, p.srv.Host().Log)
	}
}

// begin does the handshake with the server, as a client of the revision vc.
func (p *client) begin(ctx context.Context, vc *translate.Revision, bridges bool) (err error) {
	said := mcp.Initialize("0", vc.Name, p.can.JSON(false), `{"name":"dragoman-probe","version":"1"}`)
	if p.vu, p.facts, p.said, err = p.srv.Initialize(ctx, &p.o, said, bridges); err != nil {
		return plainly(err)
	}
	if _, err := p.o.Conn.Send(ctx, &upstream.Outgoing{Body: mcp.Notification(wire.Initialized, ""), Header: p.o.Header}); err != nil {
		return plainly(err)
	}
	return nil
}

// ask reads those of the lists that the server has. One that the server refuses does not end that; resources/templates/list may be
// refused, since it is optional.
func (p *client) ask(ctx context.Context, lists []List) (err error) {
	asked := 0
	p.lists, err = Read(gjson.Get(wire.View(p.said), "result.capabilities"), p.vu, lists, func(l *List, params string) ([]byte, error) {
		asked++
		p.o.ID = fmt.Appendf(nil, "%d", asked)
		m, err := inquire(ctx, &p.o, mcp.Request(p.o.ID, l.Method, params), p.vu)
		switch {
		case errors.Is(err, io.EOF):
			return nil, mcp.Fail(mcp.UpstreamSilent, "")
		case err != nil:
			return nil, plainly(err)
		case m.Kind == wire.Error && l.Method == wire.ResourcesTemplatesList:
			return nil, Refusal("")
		case m.Kind == wire.Error:
			return nil, Refusal(cmp.Or(gjson.Get(wire.View(m.Error()), "message").String(), "an error without a message"))
		}
		return m.Result(), nil
	})
	return err
}

// plainly returns the error to print: the cause of err, if it has one.
func plainly(err error) error {
	f := report.FailureOf(err)
	if f.Err != nil {
		return f.Err
	}
	return f
}

// inquire sends o's request body to a server of revision vu and returns the response. An error that the server sends as a
// status is its response too.
func inquire(ctx context.Context, o *pipes.Opening, body []byte, vu *translate.Revision) (*wire.Message, error) {
	m, _, err := era.Ask(ctx, o, body, vu)
	if e, as := pipes.RefusalOf(err, o.ID); err != nil && as == nil {
		m = new(wire.Message)
		err = m.Scan(e.Data, nil)
	}
	return m, err
}

// Server opens connections to the server that is probed.
type Server interface {
	Host() *host.Host
	Eras() *era.Cache
	// Initialize sends initialize on a new connection, which it adds to o, and returns the server's revision and facts
	// and the response for the client. bridges says that a modern server may answer too.
	Initialize(ctx context.Context, o *pipes.Opening, initialize []byte, bridges bool) (*translate.Revision, wire.Facts, []byte, error)
	// Open adds a connection to a modern server to o, and returns false if it cannot connect.
	Open(ctx context.Context, o *pipes.Opening) bool
	// BridgesTasks reports whether calls of clients of vc may become tasks at a handshake server of vu. result is its
	// InitializeResult.
	BridgesTasks(vc, vu *translate.Revision, result []byte) bool
	// WantsLogin returns err, or, if the server wants a login, an error that says how to log in.
	WantsLogin(ctx context.Context, err error) error
}
