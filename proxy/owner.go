package proxy

import (
	"crypto/sha256"
	"crypto/subtle"
	"strings"

	"github.com/dragoman-proxy/dragoman/proxy/config"
	"github.com/dragoman-proxy/dragoman/proxy/downstream"
)

// ownerMark stands for the client that a session belongs to, as far as it is identified by
// something that stays while its credentials are refreshed: the token that opened the
// listener, and the header or the claims that bridge.principal names. It is a hash, and
// part of the sealed session id. Where bridge.principal is authorization the server
// judges each request, and nothing of it is in here. The zero mark stands for a client
// that nothing identifies.
type ownerMark [16]byte

// is reports whether both stand for one client, in constant time.
func (m ownerMark) is(other ownerMark) bool { return subtle.ConstantTimeCompare(m[:], other[:]) == 1 }

// ownerOf is the mark of the client that sent a request with these headers, let in by the
// token that guest stands for.
func (s *setup) ownerOf(guest string, header func(name string) string) (m ownerMark) {
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
func (srv *Server) ownerOf(req *downstream.Request) ownerMark {
	return srv.now().ownerOf(req.Guest, req.Header)
}
