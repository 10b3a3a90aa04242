package proxy

import (
	"github.com/dragoman-proxy/dragoman/proxy/downstream"
	"github.com/dragoman-proxy/dragoman/proxy/principal"
	"github.com/dragoman-proxy/dragoman/proxy/sealed"
)

// ownerOf is the mark of the client that sent a request with these headers, let in by the
// token that guest stands for.
func (s *setup) ownerOf(guest string, header func(name string) string) sealed.Owner {
	return principal.Owner(s.cfg.Bridge.Principal, guest, header)
}

// ownerOf is the mark of the client that sent req.
func (srv *Server) ownerOf(req *downstream.Request) sealed.Owner {
	return srv.now().ownerOf(req.Guest, req.Header)
}
