package proxy

import (
	"bytes"
	"context"
	"fmt"

	"github.com/tidwall/gjson"
	"go.uber.org/zap"

	"github.com/dragoman-proxy/dragoman/adapterrt/secret"
	"github.com/dragoman-proxy/dragoman/proxy/commands/probe"
	"github.com/dragoman-proxy/dragoman/proxy/config"
	"github.com/dragoman-proxy/dragoman/proxy/ops/host"
	"github.com/dragoman-proxy/dragoman/proxy/ops/losses"
	"github.com/dragoman-proxy/dragoman/proxy/origin/era"
	"github.com/dragoman-proxy/dragoman/proxy/pipes"
	"github.com/dragoman-proxy/dragoman/proxy/session/handshake"
	"github.com/dragoman-proxy/dragoman/translate"
	"github.com/dragoman-proxy/dragoman/translate/wire"
)

// Probe reports what clients of each revision would get of the server that cfg names, as clients that declare the
// capabilities in can. See [probe.Probe].
func Probe(ctx context.Context, cfg config.Config, can probe.Capabilities, log *zap.Logger) (*probe.Report, error) {
	srv, err := newProbed(cfg, log)
	if err != nil {
		return nil, err
	}
	defer (*Server)(srv).Close()
	r, err := (*Server)(srv).Probe(ctx, can)
	return r, secret.Error((*Server)(srv).lookedInto(ctx, err), (*Server)(srv).Now().Secrets.Sets()...)
}

// Probe reports what clients of each revision would get of the server, as clients that declare the capabilities in can. See
// [probe.Probe].
func (srv *Server) Probe(ctx context.Context, can probe.Capabilities) (*probe.Report, error) {
	return probe.Probe(ctx, (*probed)(srv), can)
}

// Tools reads the tools of the server that cfg names, as a client that declares the capabilities in can. It calls no
// tool, and ends the session.
func Tools(ctx context.Context, cfg config.Config, can probe.Capabilities, log *zap.Logger) (*probe.ToolList, error) {
	srv, err := newProbed(cfg, log)
	if err != nil {
		return nil, err
	}
	defer (*Server)(srv).Close()
	list, err := probe.Tools(ctx, srv, can)
	return list, secret.Error((*Server)(srv).lookedInto(ctx, err), (*Server)(srv).Now().Secrets.Sets()...)
}

// probed is a server that is probed. It implements [probe.Server].
type probed Server

// newProbed makes the proxy for the server that cfg names, without tools of dragoman's own.
func newProbed(cfg config.Config, log *zap.Logger) (*probed, error) {
	cfg.Upstream.ShareChild, cfg.Upstream.Restart.Max = false, 0 // so that the process serves only the probe
	cfg.Adapters.Sources = nil
	srv, err := New(cfg, log)
	if err != nil {
		return nil, err
	}
	srv.Host.Losses = losses.New(zap.NewNop(), srv.Metrics, func() (string, []string) { return "", nil }) // no client of the user loses what only a proposal of the probe has
	bare := *srv.Now()
	bare.Own = nil // dragoman's own tools are not part of the server
	srv.Setup.Replace(&bare)
	return (*probed)(srv), nil
}

func (p *probed) Host() *host.Host { return p.Table.Host }
func (p *probed) Eras() *era.Cache { return p.Table.Eras }

func (p *probed) Initialize(ctx context.Context, o *pipes.Opening, initialize []byte, bridges bool) (*translate.Revision, wire.Facts, []byte, error) {
	h := &handshake.Handshake{Opener: p.Opener, Pipe: true, Bridges: bridges, Opening: *o}
	s, answer, err := h.Negotiate(ctx, initialize)
	*o = h.Opening
	switch {
	case err != nil:
		return nil, 0, nil, err
	case s == nil:
		return nil, 0, nil, fmt.Errorf("the server refuses initialize: %s", gjson.Get(wire.View(answer), "error.message").String())
	}
	return s.ServerRevision, h.Facts, bytes.Clone(answer), nil
}

func (p *probed) Open(ctx context.Context, o *pipes.Opening) bool {
	h := &handshake.Handshake{Opener: p.Opener, Pipe: true, Opening: *o}
	defer func() { *o = h.Opening }()
	return h.Open(ctx)
}

func (p *probed) BridgesTasks(vc, vu *translate.Revision, result []byte) bool {
	return (*Server)(p).BridgesTasks(vc, vu, result)
}

func (p *probed) WantsLogin(ctx context.Context, err error) error {
	return (*Server)(p).wantsLogin(ctx, err)
}
