package handshake

import (
	"context"
	"errors"
	"net/netip"
	"net/url"
	"time"

	"github.com/tidwall/gjson"
	"go.uber.org/zap"

	"github.com/dragoman-proxy/dragoman/proxy/bridge/legacyclient"
	"github.com/dragoman-proxy/dragoman/proxy/ops/metrics"
	"github.com/dragoman-proxy/dragoman/proxy/origin/era"
	"github.com/dragoman-proxy/dragoman/proxy/origin/restart"
	"github.com/dragoman-proxy/dragoman/proxy/origin/share"
	"github.com/dragoman-proxy/dragoman/proxy/pipes"
	"github.com/dragoman-proxy/dragoman/proxy/replicas/sealed"
	"github.com/dragoman-proxy/dragoman/proxy/session"
	"github.com/dragoman-proxy/dragoman/proxy/transport/upstream"
	"github.com/dragoman-proxy/dragoman/translate"
	"github.com/dragoman-proxy/dragoman/translate/wire"
)

// newSession makes the session of a finished handshake. vu is the server's revision.
func (o *Opener) newSession(h *Handshake, vu *translate.Revision) *session.Session {
	var again *restart.Pipe
	// A shared process restarts by itself, and a bridge has no handshake to repeat.
	// Over HTTP+SSE it notices that the server has lost the session, also where no other one is begun.
	restarts := o.Now().Origin.Restarts && o.Now().Config.Upstream.Restart.Max > 0 || h.Transport == upstream.HTTPWithSSE
	if !h.alone && !h.shared && h.bridged == nil && restarts {
		again = o.restarting(&h.Opening, vu.Name, h.RunsFor)
		h.Conn, h.Standing = again, again.Stream()
	}
	t := sealed.Session{
		Made: time.Now(), ClientRevision: h.vc, ServerRevision: vu, Facts: h.Facts, Named: h.named, Owner: h.Owner,
		Local: h.Pipe || h.alone || h.Standing != nil || o.Now().Origin.Resume == nil,
	}
	if !h.Pipe && (t.Local || o.serverIsBeside()) {
		t.Home = o.Instance
	}
	if h.bridged != nil {
		t.Home = o.Instance
		h.bridged.Introduced(&t)
	} else if said := gjson.GetManyBytes(h.Sent, "params.clientInfo", "params.capabilities"); h.Standing == nil && t.Named != "" {
		t.Introduce(said[0].Raw, said[1].Raw)
	}
	var s *session.Session
	if h.bridged != nil {
		s = o.MakeBridged(t, h.bridged, &h.Sender)
	} else {
		s = o.Make(t, &h.Begun, &h.Sender)
	}
	s.Serverless, s.Unheld, s.Lanes = h.alone, h.alone || h.shared, h.lanes
	s.ClientName = session.NameOf([]byte(gjson.GetBytes(h.Sent, "params.clientInfo").Raw))
	s.Piped, s.RunsFor = h.Standing != nil, h.RunsFor
	s.Open.Unique, s.Asked.Unique = h.Pipe, s.Piped
	if again != nil {
		again.Bind(s)
	}
	if h.Pipe {
		s.Pipe = o.Pipes.Add(1)
	}
	if h.Web != nil {
		h.Web.SetSession(h.named, vu.HeaderName())
	}
	o.countHandshake(h.log(), s)
	return s
}

// restarting returns the connection behind o, which starts the server's process again when it ends by itself.
func (opener *Opener) restarting(o *pipes.Opening, version, runsFor string) *restart.Pipe {
	return restart.Over(opener.Host, opener.Eras, o, restart.Options{Connect: opener.connect, Version: version, RunsFor: runsFor})
}

// connect begins a session with the server, by the current configuration. It uses the spare process, which
// was started to find out the server's era, if there is one.
func (o *Opener) connect(ctx context.Context, initialize *upstream.Outgoing) (*upstream.Begun, error) {
	if b, greeted := o.Eras.TakeSpare(ctx, initialize.Body); b != nil {
		if greeted {
			return b, nil
		}
		if _, err := b.Conn.Send(ctx, initialize); err == nil {
			return b, nil
		}
		o.Host.Spawn(func() { pipes.EndBegun(b, o.Host.Log) })
	}
	return o.Now().Origin.Connect(ctx, initialize)
}

// sharing returns what package share needs of o.
func (o *Opener) sharing() *share.Proxy {
	return &share.Proxy{
		Host: o.Host, Eras: o.Eras, Connect: o.connect, Open: o.Now().Origin.Open,
		Streams: func(conn upstream.Conn, standing upstream.Stream) share.Streams { return o.lanesTo(conn, standing) },
	}
}

// begun opens a session's connection: to a process of its own, or to the shared one.
func (o *Opener) begun(ctx context.Context, initialize *upstream.Outgoing) (*upstream.Begun, error) {
	if sh := o.Now().Origin.Shared; sh != nil {
		return sh.Join(ctx, o.sharing(), initialize)
	}
	return o.connect(ctx, initialize)
}

// BridgesTasks reports whether calls of clients of vc may become tasks at a handshake server of vu.
// result is its InitializeResult.
func (o *Opener) BridgesTasks(vc, vu *translate.Revision, result []byte) bool {
	return !vc.SameEra(vu) && vu.Tasks && o.Now().Config.Contract.Tasks == "bridge" &&
		gjson.Get(wire.View(result), "capabilities.tasks.requests.tools.call").IsObject()
}

// countHandshake counts a handshake and logs the deprecated revisions in it.
func (o *Opener) countHandshake(log *zap.Logger, s *session.Session) {
	for _, side := range []struct {
		name string
		rev  *translate.Revision
	}{{"client", s.ClientRevision}, {"server", s.ServerRevision}} {
		if side.rev.Deprecated {
			log.Info("peer uses a deprecated revision", zap.String("peer", side.name), zap.String("revision", side.rev.Name))
		}
	}
	o.Metrics.Handshake(s.ClientRevision, s.ServerRevision, metrics.Succeeded, "")
	log.Debug("session begins", zap.String("client", s.ClientRevision.Name), zap.String("server", s.ServerRevision.Name))
}

// serverIsBeside reports whether each replica has a server of its own: the server is on this
// machine, or in this pod, and there are other replicas. Such a server does not know the sessions
// of the others.
func (o *Opener) serverIsBeside() bool {
	at, err := url.Parse(o.Now().Config.Upstream.URL)
	if err != nil || !o.Replicas.Configured() {
		return false
	}
	ip, err := netip.ParseAddr(at.Hostname())
	return at.Hostname() == "localhost" || o.Now().Config.Upstream.AtSocket() || err == nil && ip.Unmap().IsLoopback()
}

// lanesTo are the lanes of a server without a handshake on a pipe. One that is a
// process and ends by itself is started again; there is nothing that it has to be told.
func (opener *Opener) lanesTo(conn upstream.Conn, standing upstream.Stream) *session.Lanes {
	if now := opener.Now(); now.Origin.Restarts && now.Config.Upstream.Restart.Max > 0 {
		o := &pipes.Opening{Of: opener.Host, Begun: upstream.Begun{Conn: conn, Standing: standing}}
		era.Discover(o, "dragoman:restart") // a process that was asked for its era may be the next
		r := opener.restarting(o, translate.Modern(), "")
		conn, standing = r, r.Stream()
	}
	return opener.OpenLanes(conn, standing, nil)
}

// Open opens a connection for a server without a handshake.
func (h *Handshake) Open(ctx context.Context) bool {
	if sh := h.Opener.Now().Origin.Shared; sh != nil && h.Bridges {
		g, err := sh.JoinModern(ctx, h.Opener.sharing())
		if err != nil {
			h.log().Debug("no process to share", zap.Error(err))
			return false
		}
		h.Begun, h.reached = upstream.Begun{Conn: g}, legacyclient.BySharedProcess
		return true
	}
	if err := h.reach(ctx); err != nil {
		h.log().Debug("no connection without a handshake", zap.Error(err))
		return false
	}
	return true
}

// reach opens a connection to the server on which nothing was sent. It uses the spare process, if there is one.
func (h *Handshake) reach(ctx context.Context) (err error) {
	b, _ := h.Opener.Eras.TakeSpare(ctx, nil)
	if b == nil {
		open := h.Opener.Now().Origin.Open
		if open == nil {
			return errors.New("there is no server")
		}
		if b, err = open(ctx); err != nil {
			return err
		}
	}
	h.Begun = *b
	return nil
}
