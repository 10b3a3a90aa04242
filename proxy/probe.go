package proxy

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/tidwall/gjson"
	"go.uber.org/zap"

	"github.com/dragoman-proxy/dragoman/proxy/clienterror"
	"github.com/dragoman-proxy/dragoman/proxy/config"
	"github.com/dragoman-proxy/dragoman/proxy/mcp"
	"github.com/dragoman-proxy/dragoman/proxy/server"
	"github.com/dragoman-proxy/dragoman/proxy/upstream"
	"github.com/dragoman-proxy/dragoman/translate"
	"github.com/dragoman-proxy/dragoman/translate/wire"
)

// maxPages is how many pages of one list a probe reads.
const maxPages = 200

// Report describes a server, and what its clients get through the proxy.
type Report struct {
	Server string `json:"server"` // the server's name and version
	// Era is "legacy" for a handshake server, "modern" for a server without a handshake, and
	// "both".
	Era string `json:"era"`
	// Revision is the server's newest revision. Handshake is its response to initialize, "" if it
	// has no handshake.
	Revision     string         `json:"revision"`
	Handshake    string         `json:"handshake,omitempty"`
	Transport    string         `json:"transport"` // http, sse or stdio
	Capabilities []string       `json:"capabilities"`
	Lists        []ListReport   `json:"lists"`
	Clients      []ClientReport `json:"clients"` // newest revision first
}

// ListReport is the length of one of the server's lists.
type ListReport struct {
	Name  string `json:"name"` // such as "tools"
	Count int    `json:"count"`
}

// ClientReport says what clients of one revision get.
type ClientReport struct {
	Revision string `json:"revision"`
	// Way is "same" if messages pass unchanged, "translated", or "bridged" between a side with a
	// handshake and one without.
	Way string `json:"way"`
	// Features are the capabilities that clients are offered, such as "resources.subscribe".
	Features []string `json:"features"`
	// Works says that all entries of the lists reach the client.
	Works   bool     `json:"works"`
	Missing []string `json:"missing,omitempty"` // such as "tools: name", with the reason if it is known
	Changes []Change `json:"changes,omitempty"`
	// Lost describes what calls and sessions lack.
	Lost []string `json:"lost,omitempty"`
}

// Change is the effect of one rule on the entries of one list.
type Change struct {
	List  string   `json:"list"` // such as "tools", or "initialize"
	Rule  string   `json:"rule"`
	What  string   `json:"what"`
	Level string   `json:"level"`
	Names []string `json:"names,omitempty"` // the changed entries
}

// Works reports whether clients of every revision get all entries.
func (r *Report) Works() bool {
	for _, c := range r.Clients {
		if !c.Works {
			return false
		}
	}
	return true
}

// ToolList is what a server tells the model about its tools.
type ToolList struct {
	Tools        [][]byte // the entries of all pages of tools/list, as the server sent them
	Instructions string
}

// Tools reads the tools of the server that cfg names, as a client that declares the capabilities in
// can. It calls no tool, and ends the session.
func Tools(ctx context.Context, cfg config.Config, can Capabilities, log *zap.Logger) (*ToolList, error) {
	p, end, err := newProbeClient(cfg, can, log)
	if err != nil {
		return nil, err
	}
	defer end()
	if err := p.begin(ctx); err != nil {
		return nil, err
	}
	if err := p.ask(ctx, allLists()[:1]); err != nil {
		return nil, err
	}
	l := &ToolList{Instructions: gjson.Get(wire.View(p.said), "result.instructions").String()}
	for _, tools := range p.lists {
		for _, item := range tools.items {
			l.Tools = append(l.Tools, []byte(item))
		}
	}
	return l, nil
}

// probeClient is a client that only reads lists.
type probeClient struct {
	srv   *Server
	can   Capabilities
	h     *handshake
	vu    *translate.Revision
	said  []byte // the response to initialize, or an equivalent made from the DiscoverResult
	lists []list
	asked int
}

// list is one of the server's lists, with its entries as the server sent them.
type list struct {
	name   string // the name of the result's member with the entries
	method wire.Method
	key    string // the member that identifies an entry
	items  []string
}

// newProbeClient makes a probeClient for the server that cfg names. The caller calls end to close
// the session.
func newProbeClient(cfg config.Config, can Capabilities, log *zap.Logger) (p *probeClient, end func(), err error) {
	cfg.Upstream.ShareChild, cfg.Upstream.Restart.Max = false, 0 // so that the process serves only the probe
	cfg.Adapters.Sources = nil
	srv, err := New(cfg, log)
	if err != nil {
		return nil, nil, err
	}
	bare := *srv.now()
	bare.own = nil // dragoman's own tools are not part of the server
	srv.setup.Store(&bare)
	p = &probeClient{srv: srv, can: can, h: &handshake{srv: srv, pipe: true, bridges: true, Opening: server.Opening{Of: srv.host, NoRoots: true}}}
	return p, func() {
		p.end()
		srv.close()
	}, nil
}

func (p *probeClient) end() {
	if p.h.Conn != nil {
		p.srv.endConn(p.h.Conn)
	}
}

// begin does the handshake with the server.
func (p *probeClient) begin(ctx context.Context) error { return p.beginAs(ctx, translate.Latest()) }

// beginAs does the handshake as a client of the given revision.
func (p *probeClient) beginAs(ctx context.Context, vc *translate.Revision) error {
	s, answer, err := p.h.negotiate(ctx, mcp.Initialize("0", vc.Name, p.can.json(false), `{"name":"dragoman-probe","version":"1"}`))
	switch {
	case err != nil:
		return plainly(err)
	case s == nil:
		return fmt.Errorf("the server refuses initialize: %s", gjson.Get(wire.View(answer), "error.message").String())
	}
	p.vu, p.said = s.ServerRevision, bytes.Clone(answer)
	if _, err := p.h.Conn.Send(ctx, &upstream.Outgoing{Body: mcp.Notification(wire.Initialized, ""), Header: p.h.Header}); err != nil {
		return plainly(err)
	}
	return nil
}

// allLists returns the lists that a server may have.
func allLists() []list {
	return []list{
		{name: "tools", method: wire.ToolsList, key: "name"},
		{name: "prompts", method: wire.PromptsList, key: "name"},
		{name: "resources", method: wire.ResourcesList, key: "uri"},
		{name: "resourceTemplates", method: wire.ResourcesTemplatesList, key: "uriTemplate"},
	}
}

// ask reads those of the lists that the server has.
func (p *probeClient) ask(ctx context.Context, lists []list) error {
	for _, l := range lists {
		capability := l.name
		if l.method == wire.ResourcesTemplatesList {
			capability = "resources"
		}
		if !gjson.Get(wire.View(p.said), "result.capabilities."+capability).Exists() {
			continue
		}
		if err := p.all(ctx, &l); err != nil {
			return fmt.Errorf("%s: %w", l.method, err)
		}
		p.lists = append(p.lists, l)
	}
	return nil
}

// plainly returns the error to print: the cause of err, if it has one.
func plainly(err error) error {
	f := clienterror.Of(err)
	if f.Err != nil {
		return f.Err
	}
	return f
}

// all reads every page of a list. resources/templates/list may fail, since it is optional.
func (p *probeClient) all(ctx context.Context, l *list) error {
	cursor := ""
	for range maxPages {
		p.asked++
		p.h.ID = fmt.Appendf(nil, "%d", p.asked)
		body := mcp.Request(p.h.ID, l.method, "{"+cursor+"}")
		st, err := p.h.Conn.Send(ctx, &upstream.Outgoing{Body: body, Request: true, Header: p.h.Header})
		if err != nil {
			return plainly(err)
		}
		if st == nil {
			st = p.h.Standing
		} else {
			defer st.Close()
		}
		m, err := p.h.Await(ctx, st)
		if e, as := server.RefusalOf(err, p.h.ID); err != nil && as == nil {
			m = new(wire.Message)
			err = m.Scan(e.Data, nil)
		}
		switch {
		case errors.Is(err, io.EOF):
			return mcp.Fail(mcp.UpstreamSilent, "")
		case err != nil:
			return plainly(err)
		case m.Kind == wire.Error && l.method == wire.ResourcesTemplatesList:
			return nil
		case m.Kind == wire.Error:
			return errors.New(gjson.Get(wire.View(m.Error()), "message").String())
		}
		result := gjson.Parse(string(m.Result()))
		for _, item := range result.Get(l.name).Array() {
			l.items = append(l.items, item.Raw)
		}
		next := result.Get("nextCursor")
		if next.Type != gjson.String {
			return nil
		}
		cursor = `"cursor":` + next.Raw
	}
	return fmt.Errorf("the list has more than %d pages: the server may repeat its cursor", maxPages)
}

// carry translates one response of the server. facts are what the handshake has shown of the
// server.
func carry(t *translate.Translator, facts wire.Facts, method wire.Method, text []byte) ([]byte, []wire.Loss, error) {
	var m wire.Message
	if err := m.Scan(text, t.Shape()); err != nil {
		return nil, nil, err
	}
	m.Method, m.Facts = method, facts
	out, _, err := t.Rewrite(nil, &m)
	return out, m.Losses, err
}

// note adds an entry to the changes of the rules that have changed it.
func (c *ClientReport) note(list, name string, losses []wire.Loss) {
	for _, loss := range losses {
		if loss.Level == wire.Debug {
			continue
		}
		at := -1
		for i, known := range c.Changes {
			if known.List == list && known.Rule == loss.Rule && known.What == loss.What {
				at = i
			}
		}
		if at < 0 {
			at = len(c.Changes)
			c.Changes = append(c.Changes, Change{List: list, Rule: loss.Rule, What: loss.What, Level: strings.ToLower(loss.Level.String())})
		}
		if loss.Level == wire.Warn {
			c.Changes[at].Level = "warn"
		}
		if name != "" {
			c.Changes[at].Names = append(c.Changes[at].Names, name)
		}
	}
}

// transportOf returns the name of the connection's transport.
func transportOf(conn upstream.Conn) string {
	switch c := conn.(type) {
	case *modernProbeConn:
		return transportOf(c.Conn)
	case *upstream.HTTPSession:
		return "http"
	case *upstream.SSESession:
		return "sse"
	}
	return "stdio"
}
