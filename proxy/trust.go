package proxy

import (
	"go.uber.org/zap"

	"github.com/dragoman-proxy/dragoman/proxy/config"
)

// tellTrust says, when clients begin to be served and after a reload, what was not so before: which server is trusted beyond what the
// system trusts, and which gets a credential that others on the way can read.
func (srv *Server) tellTrust(was *config.Upstream) {
	now := srv.Now()
	u, log := &now.Config.Upstream, srv.Host.Log
	server := zap.String("server", now.Server)
	if e := &u.Extra; e.Err != nil {
		log.Warn(config.ExtraCAsVariable+" cannot be used: the system's authorities alone are trusted", zap.Error(e.Err),
			zap.String("advice", "correct the file and restart, or name another with --ca FILE (upstream.ca_file)"))
	} else if e.File != was.Extra.File {
		log.Info("the authorities of "+config.ExtraCAsVariable+" are trusted, beside the system's", zap.String("file", e.File))
	}
	if u.Unverified() && !was.Unverified() {
		log.Warn("the server's certificate is not verified: any machine on the way can pose as the server", server,
			zap.String("setting", "upstream.verify"), zap.String("advice", "trust its certificate with --ca FILE (upstream.ca_file) instead"))
	}
	if u.InTheClear() && !was.InTheClear() {
		log.Warn("the server's token is sent over http: any machine on the way can read it", server,
			zap.String("setting", "upstream.url"), zap.String("advice", "use https://, if the server has it"))
	}
}
