package proxy

import (
	"net"

	"go.uber.org/zap"

	"github.com/dragoman-proxy/dragoman/adapterrt/secret"
	"github.com/dragoman-proxy/dragoman/proxy/config"
	"github.com/dragoman-proxy/dragoman/proxy/session/setup"
)

// warnAtStart says once, when clients begin to be served at an address, what of the configuration is open to others, or shut to clients.
func (srv *Server) warnAtStart(at net.Addr) {
	cfg := &srv.Now().Config
	for _, f := range cfg.SecretFiles() {
		if what, do := secret.OpenToOthers(f.Path); what != "" {
			srv.Host.Log.Warn("a file with a secret is open to others: "+what, zap.String("setting", f.Setting), zap.String("advice", do))
		}
	}
	if !setup.IsLoopback(at) && len(cfg.AllowedHosts) == 0 {
		srv.Host.Log.Warn(config.NoHosts, zap.Stringer("listen", at), zap.String("setting", "allowed_hosts"), zap.String("advice", config.SetHosts))
	}
}
