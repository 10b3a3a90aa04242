package proxy

import (
	"net"

	"go.uber.org/zap"

	"github.com/dragoman-proxy/dragoman/adapterrt/secret"
	"github.com/dragoman-proxy/dragoman/proxy/config"
	"github.com/dragoman-proxy/dragoman/proxy/session/setup"
)

// warnOfOpenFiles says, when clients begin to be served, which files with secrets are open to others.
func (srv *Server) warnOfOpenFiles() {
	for _, f := range srv.Now().Config.SecretFiles() {
		if what, do := secret.OpenToOthers(f.Path); what != "" {
			srv.Host.Log.Warn("a file with a secret is open to others: "+what, zap.String("setting", f.Setting), zap.String("advice", do))
		}
	}
}

// warnOfNames says, when clients begin to be served at an address, that they must use that and no name.
func (srv *Server) warnOfNames(at net.Addr) {
	if !setup.IsLoopback(at) && len(srv.Now().Config.AllowedHosts) == 0 {
		srv.Host.Log.Warn(config.NoHosts, zap.Stringer("listen", at), zap.String("setting", "allowed_hosts"), zap.String("advice", config.SetHosts))
	}
}
