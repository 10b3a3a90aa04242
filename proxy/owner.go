package proxy

import (
	"github.com/dragoman-proxy/dragoman/proxy/downstream"
	"github.com/dragoman-proxy/dragoman/proxy/sealed"
)

// ownerOf returns the owner mark of the client that sent req.
func (srv *sessions) ownerOf(req *downstream.Request) sealed.Owner {
	return srv.now().OwnerOf(req.Guest, req.Header)
}
