package handshake

import (
	"context"

	"github.com/tidwall/gjson"

	"github.com/dragoman-proxy/dragoman/proxy/bridge/modernclient"
	"github.com/dragoman-proxy/dragoman/proxy/bridge/stateless"
	"github.com/dragoman-proxy/dragoman/proxy/origin/era"
	"github.com/dragoman-proxy/dragoman/proxy/origin/share"
	"github.com/dragoman-proxy/dragoman/proxy/pipes"
	"github.com/dragoman-proxy/dragoman/proxy/protocol/mcp"
	"github.com/dragoman-proxy/dragoman/proxy/replicas/processes"
	"github.com/dragoman-proxy/dragoman/proxy/session"
	"github.com/dragoman-proxy/dragoman/proxy/transport/upstream"
	"github.com/dragoman-proxy/dragoman/translate"
	"github.com/dragoman-proxy/dragoman/translate/wire"
)

// Open begins a session for modern clients, and returns the InitializeResult of the server in the newest revision.
func (opener *Opener) Open(ctx context.Context, o modernclient.Opening) (s *session.Session, answer []byte, err error) {
	defer func() {
		if r := recover(); r != nil {
			opener.Host.Report.Panicked(r)
			err = mcp.Fail(mcp.Panicked, "")
		}
	}()
	h := &Handshake{Opener: opener, Sender: o.For.Sender, RunsFor: o.For.RunsFor(), Opening: pipes.Opening{Of: opener.Host, Header: o.Header, ID: []byte("1")}}
	ctx = processes.For(ctx, h.RunsFor)
	var known *era.Era
	if o.Kind != modernclient.OnlyAdapters {
		if known, err = opener.eraFor(ctx, o.Header, o.For); err != nil {
			return nil, nil, err
		}
		defer func() {
			if err != nil { // the server may have been replaced
				opener.Eras.Drop(o.Header, known)
				err = opener.Eras.OrChanged(ctx, o.Header, known, err)
			}
		}()
	}
	if o.Kind == modernclient.WithoutHandshake {
		if s, err = h.Directly(ctx, o.For, known); err == nil {
			s.Direct.Realm = o.Realm
		}
	} else {
		s, answer, err = h.shakeHands(ctx, o, known)
	}
	if err != nil {
		return nil, nil, err
	}
	s.Principal = "modern " + o.Principal
	s.Ended = nil // the state of own tools belongs to the principal, which may have several sessions
	if s.Piped {
		l := opener.OpenLanes(h.Conn, h.Standing, h.ID)
		l.WhenLost(o.Lost)
		if o.Kind == modernclient.WithoutHandshake {
			remapped := share.NewRemapper(opener.Host, l)
			s.Conn, s.Recall = remapped, remapped.Recall
		} else {
			s.OverLanes(l)
		}
	}
	if o.Kind != modernclient.WithoutHandshake && !s.Greeted {
		_, err = s.Conn.Send(ctx, &upstream.Outgoing{Body: mcp.Notification(wire.Initialized, ""), Header: o.Header})
	}
	if err != nil {
		opener.End(s, err)
		return nil, nil, err
	}
	if known != nil && known.Unsure {
		opener.Eras.Note(o.Header, &era.Era{Handshake: era.Accepted, Newest: s.ServerRevision})
	}
	return s, answer, nil
}

// NeedsNoSession reports whether requests with q's headers need no session. The error is set only if the server took too long
// to answer. If the era cannot be found out for another reason, NeedsNoSession returns false, and a request through a
// session reports that reason.
func (opener *Opener) NeedsNoSession(ctx context.Context, header []mcp.Header, q *stateless.Request) (bool, error) {
	e, err := opener.eraFor(ctx, header, q)
	if era.TookTooLong(err) {
		return false, err
	}
	return err == nil && e.Modern(), nil
}

// eraFor returns the server's era for a client that sends q. If the server has to be asked, and is asked with initialize, it
// is with that of the client's session.
func (opener *Opener) eraFor(ctx context.Context, header []mcp.Header, q *stateless.Request) (*era.Era, error) {
	if known := opener.Eras.Peek(header); known != nil {
		return known, nil
	}
	raw, facts := initializeOf(q)
	latest := translate.Latest()
	body, _, err := proposal(opener.Now().Table.Between(translate.Lookup(translate.Modern()), latest), raw, latest, facts)
	if err != nil || opener.Now().Origin.Shared != nil {
		return opener.Eras.Of(ctx, header)
	}
	return opener.Eras.OfFor(ctx, header, body)
}

// initializeOf returns the initialize that begins a session of dragoman's own for a modern client, from any request of it.
func initializeOf(q *stateless.Request) (raw []byte, facts wire.Facts) {
	client := q.ClientInfo
	if client == nil {
		client = []byte(mcp.Unnamed)
	}
	return mcp.Initialize("1", translate.Modern(), q.Capabilities, client), mcp.ClientFacts(gjson.ParseBytes(q.Capabilities))
}

// shakeHands does the handshake of a session for modern clients, with the server or, for modernclient.OnlyAdapters, without one.
// answer is an InitializeResult in the newest revision.
func (h *Handshake) shakeHands(ctx context.Context, o modernclient.Opening, known *era.Era) (s *session.Session, answer []byte, err error) {
	switch h.vc = translate.Lookup(translate.Modern()); {
	case o.Kind == modernclient.OnlyAdapters:
		h.Facts = o.For.Facts
		s, answer, err = h.settleAlone()
	case !known.Serves(false):
		err = mcp.Fail(mcp.UpstreamModern, known.Revision.Name)
	default:
		raw, facts := initializeOf(o.For)
		h.Facts = facts
		s, answer, err = h.propose(ctx, raw, known.Newest)
	}
	if s == nil {
		if h.Conn != nil {
			h.Opener.Host.Spawn(func() { h.Opener.EndConn(h.Conn) })
		}
		if err == nil {
			err = RefusedHandshake(answer)
		}
		return nil, nil, err
	}
	s.Catalogue.Introduce(answer)
	return s, answer, nil
}
