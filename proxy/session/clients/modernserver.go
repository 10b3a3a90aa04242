package clients

import (
	"context"
	"time"

	"github.com/tidwall/gjson"

	"github.com/dragoman-proxy/dragoman/proxy/bridge/modernclient"
	"github.com/dragoman-proxy/dragoman/proxy/bridge/stateless"
	"github.com/dragoman-proxy/dragoman/proxy/ops/report"
	"github.com/dragoman-proxy/dragoman/proxy/ops/telemetry"
	"github.com/dragoman-proxy/dragoman/proxy/pipes/mcpheader"
	"github.com/dragoman-proxy/dragoman/proxy/protocol/mcp"
	"github.com/dragoman-proxy/dragoman/proxy/protocol/toolindex"
	"github.com/dragoman-proxy/dragoman/proxy/replicas/sealed"
	"github.com/dragoman-proxy/dragoman/proxy/session"
	"github.com/dragoman-proxy/dragoman/proxy/transport/downstream"
	"github.com/dragoman-proxy/dragoman/translate"
	"github.com/dragoman-proxy/dragoman/translate/wire"
)

// IsOurs reports whether q calls one of dragoman's own tools. Such a call needs a session with any
// server, since the tool may ask the user something.
func (p *Proxy) IsOurs(q *stateless.Request) bool {
	own := p.Now().OwnFor(&q.Sender)
	return own != nil && q.Method == wire.ToolsCall && own.Named([]byte(gjson.GetBytes(q.Raw, "params").Raw)) != ""
}

// NeedsSession reports whether q needs a session, or what is kept of one, with any server.
func (p *Proxy) NeedsSession(q *stateless.Request, who string) bool {
	return p.IsOurs(q) || p.Modern.Continues(q, who)
}

// CheckCall compares the headers of a tool call that repeat arguments with the arguments, by the
// tool's inputSchema in the server's list, which tools reads.
func (p *Proxy) CheckCall(ctx context.Context, s *session.Session, tools modernclient.ToolLister, q *stateless.Request) error {
	if q.Method != wire.ToolsCall || q.Header == nil {
		return nil
	}
	if own := p.Now().OwnFor(&q.Sender); own != nil && p.IsOurs(q) {
		t, _ := own.Find(gjson.ParseBytes(q.Target).String())
		return mcpheader.CheckParams(t.Arguments, q.Arguments, q.Header)
	}
	t, known := s.Tools.Find(gjson.ParseBytes(q.Target).String())
	unread := !known && (s.Direct != nil || q.HasParams())
	var wrong error
	if !unread {
		if wrong = mcpheader.CheckParams(t.Arguments, q.Arguments, q.Header); wrong == nil || report.FailureOf(wrong).Cause != mcp.HeaderMismatch {
			return wrong
		}
	}
	return checkAgain(ctx, s, tools, q, wrong)
}

const (
	// listTime is how long a call waits for the list of tools.
	listTime = 5 * time.Second
	// listFreshness is how recently the list must have been read to refuse a call because of it.
	listFreshness = time.Second
)

// checkAgain is checkCall with a list that is read now: the tool was unknown, or the known list
// leads to the error wrong, and the client may have a newer list.
func checkAgain(client context.Context, s *session.Session, tools modernclient.ToolLister, q *stateless.Request, wrong error) error {
	began := time.Now()
	ctx, cancel := context.WithTimeout(client, listTime)
	defer cancel()
	known, tool := &s.Tools, gjson.ParseBytes(q.Target).String()
	ask := toolindex.Ask{Of: s.ServerRevision, Page: func(params string) ([]byte, error) { return tools.List(ctx, params) }}
	if wrong == nil {
		t, err := known.Look(ctx, tool, ask)
		if err != nil {
			return context.Cause(client) // the server will say what is wrong with the call
		}
		if wrong = mcpheader.CheckParams(t.Arguments, q.Arguments, q.Header); wrong == nil || report.FailureOf(wrong).Cause != mcp.HeaderMismatch {
			return wrong
		}
	}
	if known.Refresh(ctx, began.Add(-listFreshness), ask) == nil {
		t, _ := known.Find(tool)
		wrong = mcpheader.CheckParams(t.Arguments, q.Arguments, q.Header)
	}
	return wrong
}

// SpanWithout begins the spans of the request m of a client without a session, or returns nil.
func (proxy *Proxy) SpanWithout(m *wire.Message, header []mcp.Header, peer string) *telemetry.Call {
	p, yes := proxy.Tracer.Samples(m.Params(), header, nil)
	if !yes {
		return nil
	}
	client := telemetry.Edge{Revision: translate.Modern(), Address: peer}
	return proxy.Tracer.Begin(p, telemetry.MessageOf(m, time.Now()), client, telemetry.Edge{Address: proxy.Now().Address})
}

// RunsFor returns the client that a process is counted for: the session's owner, or the peer's
// address if nothing identifies the owner.
func (p *Proxy) RunsFor(req *downstream.Request) string {
	if m := p.OwnerOf(req); m != (sealed.Owner{}) {
		return string(m[:])
	}
	return "peer " + req.Peer
}
