package proxy

import (
	"github.com/dragoman-proxy/dragoman/proxy/downstream"
	"github.com/dragoman-proxy/dragoman/proxy/principal"
	"github.com/dragoman-proxy/dragoman/proxy/sealed"
)

// ownerOf returns the owner mark of the client that sent a request with these headers. guest stands
// for the token that the client was admitted with.
func (s *setup) ownerOf(guest string, header func(name string) string) sealed.Owner {
	return principal.Owner(s.cfg.Bridge.Principal, guest, header)
}

// ownerOf returns the owner mark of the client that sent req.
func (srv *Server) ownerOf(req *downstream.Request) sealed.Owner {
	return srv.now().ownerOf(req.Guest, req.Header)
}
