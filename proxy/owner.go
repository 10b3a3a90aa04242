package proxy

import (
	"crypto/sha256"
	"strings"

	"github.com/dragoman-proxy/dragoman/proxy/config"
	"github.com/dragoman-proxy/dragoman/proxy/downstream"
	"github.com/dragoman-proxy/dragoman/proxy/sealed"
)

// ownerOf is the mark of the client that sent a request with these headers, let in by the
// token that guest stands for.
func (s *setup) ownerOf(guest string, header func(name string) string) (m sealed.Owner) {
	by, who := s.cfg.Bridge.Principal, ""
	if header != nil {
		if name, ok := strings.CutPrefix(by, "header:"); ok {
			who = header(name)
		} else if names := config.ClaimsOf(by); names != nil {
			who, _ = claimed(header("Authorization"), names)
		}
	}
	if guest == "" && who == "" {
		return m
	}
	b := make([]byte, 0, 256)
	b = append(append(append(append(b, "owner\x00"...), guest...), 0), who...)
	sum := sha256.Sum256(b)
	copy(m[:], sum[:])
	return m
}

// ownerOf is the mark of the client that sent req.
func (srv *Server) ownerOf(req *downstream.Request) sealed.Owner {
	return srv.now().ownerOf(req.Guest, req.Header)
}
