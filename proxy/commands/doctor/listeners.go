package doctor

import (
	"context"
	"net"
	"strings"

	"github.com/dragoman-proxy/dragoman/proxy/auth/oauth"
	"github.com/dragoman-proxy/dragoman/proxy/bytes/unixsocket"
	"github.com/dragoman-proxy/dragoman/proxy/config"
)

// listeners checks the addresses at which dragoman listens.
func listeners(_ context.Context, e *exam) {
	var clients net.Listener
	if unixsocket.Is(e.cfg.Listen) {
		e.socket()
	} else {
		clients = e.port("listen", e.cfg.Listen, "--listen ", nil)
	}
	if e.cfg.Admin.Listen != "" {
		if admin := e.port("admin.listen", e.cfg.Admin.Listen, "admin.listen: ", clients); admin != nil {
			admin.Close()
		}
	}
	if clients != nil {
		clients.Close()
	}
	e.exposed()
	if e.cfg.TLS.Cert != "" {
		e.ownCertificate()
	}
}

// port checks that an address is free, by listening at it, and returns the listener, which is nil if it is not. clients is
// the listener for clients; nil if there is none.
func (e *exam) port(setting, addr, flag string, clients net.Listener) net.Listener {
	ln, err := net.Listen("tcp", addr)
	if err == nil {
		e.ok(addr+" is free", setting)
		return ln
	}
	if !oauth.IsInUse(err) {
		e.fail("cannot listen at "+addr+": "+cause(err), setting, "use an address of this machine, such as 127.0.0.1:8808, and a port above 1023")
		return nil
	}
	holder := holderOf(addr)
	other := flag + freeBeside(addr)
	switch defaults := config.Default(); {
	case setting == "admin.listen" && e.cfg.Admin.Movable:
		e.ok(addr+" is in use by "+holder+": serve takes a free port for probes and metrics", setting)
	case clients != nil && oauth.SamePort(addr, clients.Addr()):
		e.fail(addr+" is taken by listen, "+e.cfg.Listen+", of the same configuration", setting, other)
	case strings.HasPrefix(holder, "dragoman "):
		e.warn(addr+" is in use by "+holder+": is it the one that this configuration is for?", setting, "for a second one: "+other)
	case setting == "listen" && addr == defaults.Listen:
		e.warn(addr+" is in use by "+holder+"; it matters to dragoman serve only", setting, other+", or end that process")
	default:
		e.fail(addr+" is in use by "+holder, setting, other+", or end that process")
	}
	return nil
}

// socket checks that serve can listen at the unix socket of "listen". It makes no file.
func (e *exam) socket() {
	path, err := unixsocket.Path(e.cfg.Listen)
	if err == nil {
		err = unixsocket.Free(path)
	}
	switch {
	case err == nil:
		e.ok(e.cfg.Listen+" is free", "listen")
	case isA[*unixsocket.UsedError](err):
		e.warn(err.Error()+": is it the dragoman that this configuration is for?", "listen", "for a second one, another path in listen")
	default:
		e.fail("cannot listen at "+e.cfg.Listen+": "+err.Error(), "listen", "a path in a folder that exists and that this user may write to")
	}
}

// freeBeside returns an address with the host of addr and a free port.
func freeBeside(addr string) string {
	host, _, _ := net.SplitHostPort(addr)
	ln, err := net.Listen("tcp", net.JoinHostPort(host, "0"))
	if err != nil {
		return net.JoinHostPort(host, "PORT")
	}
	defer ln.Close()
	_, port, _ := net.SplitHostPort(ln.Addr().String())
	return net.JoinHostPort(host, port)
}

// exposed says whether other machines can use the listener without a token, and under which names.
func (e *exam) exposed() {
	if unixsocket.Is(e.cfg.Listen) || oauth.IsLoopback(e.cfg.Listen) {
		return
	}
	if len(e.cfg.AllowedHosts) == 0 {
		e.warn(config.NoHosts, "allowed_hosts", config.SetHosts)
	}
	if len(e.cfg.Auth.Tokens)+len(e.cfg.Auth.NamedTokens) > 0 || e.cfg.Auth.TokenFile != "" {
		return
	}
	u := &e.cfg.Upstream
	lends := len(u.Headers) > 0 || u.ClientCert != "" || u.Auth.Lends() || len(e.cfg.Adapters.Sources) > 0
	switch {
	case lends && !e.cfg.Auth.TrustNetwork:
		e.fail(e.cfg.Listen+" "+config.NoTokens+", and its clients use dragoman's credentials: serve refuses to start",
			"auth.tokens", config.SetTokens+config.OrTrust)
	case !e.cfg.Auth.TrustNetwork:
		e.warn(e.cfg.Listen+" "+config.NoTokens, "auth.tokens", config.SetTokens)
	}
}

// ownCertificate checks the certificate of the listener.
func (e *exam) ownCertificate() {
	pair, err := config.KeyPair(e.cfg.TLS.Cert, e.cfg.TLS.Key)
	if err != nil {
		e.fail("the certificate and its key cannot be used: "+cause(err), "tls", "tls.cert and tls.key must be PEM files that belong together")
		return
	}
	e.dates(pair.Leaf, "the listener's certificate", e.cfg.TLS.Cert, "renew it; dragoman reads the files again on SIGHUP")
}
