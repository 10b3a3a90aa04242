package probe

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/tidwall/gjson"
	"github.com/tidwall/sjson"

	"github.com/dragoman-proxy/dragoman/proxy/bridge/legacyclient"
	"github.com/dragoman-proxy/dragoman/proxy/origin/era"
	"github.com/dragoman-proxy/dragoman/proxy/protocol/mcp"
	"github.com/dragoman-proxy/dragoman/proxy/protocol/toolindex"
	"github.com/dragoman-proxy/dragoman/proxy/transport/upstream"
	"github.com/dragoman-proxy/dragoman/translate"
	"github.com/dragoman-proxy/dragoman/translate/wire"
)

// Probe asks the server for its properties and lists, in each era that it supports, as a client that declares the
// capabilities in can. It reports what clients of each revision would get. It calls no tool, and ends its sessions.
func Probe(ctx context.Context, srv Server, can Capabilities) (*Report, error) {
	e, err := srv.Eras().Of(ctx, nil)
	if err != nil {
		return nil, srv.WantsLogin(ctx, plainly(err))
	}
	p := probing{}
	if e.Modern() {
		p.modern = newClient(srv, can)
		defer p.modern.end()
		if err := p.modern.discover(ctx); err != nil {
			return nil, srv.WantsLogin(ctx, err)
		}
		if err := p.modern.ask(ctx, Lists()); err != nil {
			return nil, err
		}
	}
	if e.Serves(false) {
		c := newClient(srv, can)
		defer c.end()
		if err := c.begin(ctx, translate.Latest(), e.Handshake == era.Untried); err != nil {
			return nil, srv.WantsLogin(ctx, err)
		}
		if !c.vu.Modern { // else the server has refused the handshake
			p.legacy = c
		}
	}
	if p.legacy != nil {
		if err := p.legacy.ask(ctx, Lists()); err != nil {
			return nil, err
		}
		p.mute = p.legacy.isMute(ctx)
		if srv.Eras().HasFallback(nil) {
			end, err := p.askOlder(ctx)
			defer end()
			if err != nil {
				return nil, err
			}
		}
	}
	return p.report()
}

// probing holds what was learnt of a server, by era.
type probing struct {
	modern, legacy *client // nil if the server is not of this era
	mute           bool    // the handshake side has no standing stream

	// older holds a session for each older revision, if the server refuses the newest handshake
	// revision: a client of that revision gets it.
	older map[*translate.Revision]*client
}

// askOlder probes a server that has refused the newest revision with each of the other revisions.
// The caller calls end to close the sessions.
func (p *probing) askOlder(ctx context.Context) (end func(), err error) {
	p.older = make(map[*translate.Revision]*client)
	end = func() {
		for _, q := range p.older {
			q.end()
		}
	}
	for _, vc := range translate.Handshake() {
		if vc == translate.Latest() || vc == p.legacy.vu {
			continue
		}
		q := newClient(p.legacy.srv, p.legacy.can)
		if err := q.begin(ctx, vc, false); err != nil || q.vu != vc {
			q.end() // these clients get what the other clients get
			continue
		}
		p.older[vc] = q
		if err := q.ask(ctx, Lists()); err != nil {
			return end, err
		}
	}
	return end, nil
}

// discover begins a probe of a modern server.
func (p *client) discover(ctx context.Context) error {
	if !p.srv.Open(ctx, &p.o) {
		return errors.New("cannot connect to the server")
	}
	p.vu = translate.Lookup(translate.Modern())
	p.o.Conn = &modernProbeConn{p.o.Conn, p.o.Standing != nil, p.can.JSON(true)}
	p.o.ID = []byte("0")
	m, err := inquire(ctx, &p.o, mcp.Request("0", wire.ServerDiscover, "{}"), p.vu)
	switch {
	case err != nil:
		return plainly(err)
	case m.Kind == wire.Error:
		return fmt.Errorf("%s: %s", wire.ServerDiscover, gjson.Get(wire.View(m.Error()), "message").String())
	}
	p.said = legacyclient.AppendInitializeResult(nil, p.o.ID, p.vu.Name, m.Result())
	return nil
}

// modernProbeConn is a connection to a modern server that adds to each request the _meta of the
// probe.
type modernProbeConn struct {
	upstream.Conn
	piped        bool
	capabilities string
}

// Send adds the _meta and the headers of a modern request.
func (c *modernProbeConn) Send(ctx context.Context, m *upstream.Outgoing) (upstream.Stream, error) {
	o := *m
	var err error
	meta := fmt.Appendf(nil, `{%q:%q,%q:{"name":"dragoman-probe","version":"1"},%q:%s}`,
		mcp.MetaVersion, translate.Modern(), mcp.MetaClient, mcp.MetaCapabilities, c.capabilities)
	if o.Body, err = sjson.SetRawBytes(slices.Clone(m.Body), "params._meta", meta); err != nil {
		return nil, err
	}
	if !c.piped {
		o.Header = append(slices.Clone(m.Header), mcp.Header{Name: "Mcp-Method", Value: gjson.GetBytes(m.Body, "method").String()})
	}
	return c.Conn.Send(ctx, &o)
}

// isMute reports whether a server over HTTP has no standing stream, on which it could send
// notifications.
func (p *client) isMute(ctx context.Context) bool {
	if p.o.Standing != nil {
		return false
	}
	st, err := p.o.Conn.Listen(ctx, upstream.ListenOptions{Header: p.o.Header})
	if err == nil {
		st.Close()
	}
	return errors.Is(err, upstream.ErrNoStream)
}

// side returns the probe whose results clients of the revision vc get.
func (p *probing) side(vc *translate.Revision) *client {
	if p.legacy == nil || vc.Modern && p.modern != nil {
		return p.modern
	}
	if q := p.older[vc]; q != nil {
		return q
	}
	return p.legacy
}

func (p *probing) report() (*Report, error) {
	first := p.side(translate.Lookup(translate.Modern()))
	said := gjson.Parse(string(first.said)).Get("result")
	r := &Report{
		Server:    strings.TrimSpace(said.Get("serverInfo.name").String() + " " + said.Get("serverInfo.version").String()),
		Era:       "both",
		Revision:  first.vu.Name,
		Transport: cmp.Or(string(first.o.Transport), "stdio"),
	}
	switch {
	case p.legacy == nil:
		r.Era = "modern"
	case p.modern == nil:
		r.Era = "legacy"
	}
	if p.legacy != nil {
		r.Handshake = p.legacy.vu.Name
	}
	said.Get("capabilities").ForEach(func(name, _ gjson.Result) bool {
		r.Capabilities = append(r.Capabilities, name.String())
		return true
	})
	for _, l := range first.lists {
		r.Lists = append(r.Lists, ListReport{l.Name, len(l.Items), l.Refused, l.Endless})
	}
	for _, vc := range translate.All() {
		c, err := p.side(vc).client(vc)
		if err != nil {
			return nil, err
		}
		c.Lost, c.PossiblyLost = p.lost(vc, &c), p.possiblyLost(vc)
		r.Clients = append(r.Clients, c)
	}
	return r, nil
}

// client reports what clients of one revision get of the lists.
func (p *client) client(vc *translate.Revision) (ClientReport, error) {
	c := ClientReport{Revision: vc.Name, Way: "translated", Works: true, Features: features(p.said)}
	p.dialects(&c, vc)
	t := p.srv.Host().Table().Between(p.vu, vc)
	switch {
	case t.Identity():
		c.Way = "same"
		return c, nil
	case !vc.SameEra(p.vu):
		c.Way = "bridged"
	}
	facts := p.facts
	if p.srv.BridgesTasks(vc, p.vu, []byte(gjson.Get(wire.View(p.said), "result").Raw)) {
		facts |= wire.ServerTasks
	}
	out, losses, err := carry(t, facts, wire.Initialize, bytes.Clone(p.said))
	if err != nil {
		return c, err
	}
	c.Features = features(out)
	c.note(handshake, "", losses)
	headers := p.vu.Modern && p.o.Transport == upstream.StreamableHTTP
	for _, l := range p.lists {
		cut, err := l.cut(t, &c)
		if err != nil {
			return c, err
		}
		for i, item := range l.Items {
			name := gjson.Get(item, l.Key).String()
			if _, err := toolindex.Arguments(gjson.Get(item, "inputSchema")); headers && l.Method == wire.ToolsList && err != nil {
				c.miss(l.Name, name, err.Error())
				continue
			}
			if i >= cut {
				c.miss(l.Name, name, "it is behind an empty cursor, with which the list ends for the client")
				continue
			}
			out, losses, err := carry(t, facts, l.Method, mcp.AppendResult(nil, []byte("0"), `{"`+l.Name+`":[`+item+`]}`))
			switch {
			case err != nil:
				c.miss(l.Name, name, err.Error())
				continue
			case gjson.Get(wire.View(out), "result."+l.Name+".#").Int() == 0:
				c.miss(l.Name, name, "")
			}
			c.note(l.Name, name, losses)
		}
	}
	return c, nil
}

// cut returns how many entries of the list come before a cursor with which it ends for the client, though not for the server.
func (l *List) cut(t *translate.Translator, c *ClientReport) (n int, err error) {
	if l.emptied < 0 {
		return len(l.Items), nil
	}
	_, losses, err := carry(t, 0, l.Method, mcp.AppendResult(nil, []byte("0"), `{"`+l.Name+`":[],"nextCursor":""}`))
	c.note(l.Name, "", losses)
	if slices.ContainsFunc(losses, func(loss wire.Loss) bool { return loss.Level == wire.Warn }) {
		return l.emptied, err
	}
	return len(l.Items), err
}

// miss notes an entry that clients do not get, and why.
func (c *ClientReport) miss(list, name, why string) {
	c.Works = false
	m := list + ": " + name
	if why != "" {
		m += ": " + why
	}
	c.Missing = append(c.Missing, m)
}

// features returns the capabilities in a response to initialize, and their enabled members.
func features(initialized []byte) []string {
	list := []string{}
	gjson.GetBytes(initialized, "result.capabilities").ForEach(func(name, v gjson.Result) bool {
		if v.Type == gjson.Null || v.Type == gjson.False {
			return true
		}
		list = append(list, name.String())
		if name.String() == "experimental" || !v.IsObject() {
			return true
		}
		v.ForEach(func(part, on gjson.Result) bool {
			if on.Type == gjson.True || on.IsObject() {
				list = append(list, name.String()+"."+part.String())
			}
			return true
		})
		return true
	})
	return list
}

// lostCapabilities returns the server's capabilities that clients are not offered. Tasks are a
// capability in handshake revisions and an extension in modern ones; either form counts.
func lostCapabilities(said, offered []string) (list []string) {
	const tasks = "extensions." + mcp.TasksExtension
	others := slices.ContainsFunc(said, func(name string) bool { return strings.HasPrefix(name, "extensions.") && name != tasks })
	for _, name := range said {
		switch {
		case strings.Contains(name, "."), slices.Contains(offered, name):
		case name == "tasks" && slices.Contains(offered, tasks):
		case name == "extensions" && !others && slices.Contains(said, tasks) && slices.Contains(offered, "tasks"):
		default:
			list = append(list, name)
		}
	}
	return list
}

// lost returns what clients of one revision lack of what the server has, apart from entries of lists and from what rules change.
func (p *probing) lost(vc *translate.Revision, c *ClientReport) (list []string) {
	side := p.side(vc)
	for _, name := range lostCapabilities(features(side.said), c.Features) {
		if !slices.ContainsFunc(c.Changes, func(ch Change) bool { return ch.List == handshake && ch.What == name }) {
			list = append(list, name+": the capability")
		}
	}
	if !vc.Modern || vc.SameEra(side.vu) {
		return list
	}
	tells := slices.ContainsFunc(c.Features, func(name string) bool {
		return strings.HasSuffix(name, ".listChanged") || strings.HasSuffix(name, ".subscribe")
	})
	if tells && p.mute {
		list = append(list, "news of lists and resources: the server has no stream for them")
	}
	if side.o.Standing != nil && slices.Contains(c.Features, "logging") {
		list = append(list, "log messages while several calls run: dropped, since they name no call")
	}
	return list
}

// possiblyLost returns what clients of one revision would lack if the server did what nothing shows that it does.
func (p *probing) possiblyLost(vc *translate.Revision) (list []string) {
	side := p.side(vc)
	if vc.SameEra(side.vu) {
		if side.vu.Elicitation && !vc.Elicitation {
			list = append(list, "the server asks the user (elicitation): refused, these clients cannot ask")
		}
		if vc.Modern && p.legacy != nil {
			list = append(list, "the server asks in a request of its own: only clients with a handshake get it")
		}
		return list
	}
	if vc.Modern {
		list = append(list, "the server asks outside of a call: it waits for the next call, or is refused")
	} else if !vc.Elicitation {
		list = append(list, "the server asks the user (elicitation): answered with cancel, these clients cannot ask")
	}
	list = append(list, "a client reports progress to the server: dropped") // and changes of its roots, but the server asks for them anew
	if side.o.Standing == nil {
		list = append(list, "the stream of an answer breaks: not told again")
	}
	return list
}
