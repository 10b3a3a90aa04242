package setup

import (
	"net"
	"net/netip"
	"net/url"
	"strconv"
	"strings"

	"github.com/dragoman-proxy/dragoman/proxy/auth/oauth"
	"github.com/dragoman-proxy/dragoman/proxy/bytes/unixsocket"
	"github.com/dragoman-proxy/dragoman/proxy/config"
)

// An OwnAddressError says that the server's URL leads to dragoman's own listener: each message would come back for ever.
type OwnAddressError struct{ URL string } // without secrets

// Error says what to change.
func (e *OwnAddressError) Error() string {
	return "upstream.url: " + e.URL + " is dragoman's own address: give the server's, or another --listen"
}

// isOwn reports whether a server's URL is the address of a listener.
func isOwn(server string, at net.Addr) bool {
	if unixsocket.Is(server) {
		path, _, err := unixsocket.Server(server)
		return err == nil && at.Network() == "unix" && at.String() == path
	}
	u, err := url.Parse(server)
	tcp, ok := at.(*net.TCPAddr)
	if err != nil || !ok {
		return false
	}
	port := u.Port()
	if port == "" {
		port = map[string]string{"http": "80", "https": "443"}[u.Scheme]
	}
	if port != strconv.Itoa(tcp.Port) {
		return false
	}
	here := tcp.AddrPort().Addr().Unmap()
	host, err := netip.ParseAddr(u.Hostname())
	switch every := len(tcp.IP) == 0 || tcp.IP.IsUnspecified(); {
	case err != nil:
		return strings.EqualFold(u.Hostname(), "localhost") && (every || here.IsLoopback())
	case every:
		return oauth.IsLoopback(u.Hostname()) || host.IsUnspecified()
	default:
		return host.Unmap() == here
	}
}

// leadsHere returns an error if the server's URL is the address of a listener.
func (s *Setup) leadsHere(at net.Addr) error {
	if server := s.Config.Upstream.URL; server != "" && isOwn(server, at) {
		return &OwnAddressError{config.SafeURL(server)}
	}
	return nil
}
