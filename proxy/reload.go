package proxy

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"reflect"
	"strings"

	"go.uber.org/zap"

	"github.com/dragoman-proxy/dragoman/proxy/config"
	"github.com/dragoman-proxy/dragoman/proxy/features/owntools"
	"github.com/dragoman-proxy/dragoman/proxy/features/shape"
	"github.com/dragoman-proxy/dragoman/proxy/ops/report"
	"github.com/dragoman-proxy/dragoman/proxy/session/setup"
)

// ReloadAdapters reads the adapter files again and applies all valid ones in one step. An invalid file
// keeps its last valid version, and the log names the error. Calls in flight finish on the version
// they began with. Clients are notified when the list of tools has changed. because is logged as the
// reason for the reload.
func (srv *Server) ReloadAdapters(because string) {
	srv.reloading.Lock()
	defer srv.reloading.Unlock()
	a := srv.Adapters
	if a == nil || srv.Host.Draining.Err() != nil {
		return
	}
	changed, wrong, err := a.Refresh(srv.renewOwn)
	if err != nil || wrong {
		srv.Metrics.AdapterReloads.WithLabelValues("failure").Inc()
		srv.Host.Log.Error("adapter files are invalid: the last valid version of each stays in use", zap.String("because", because), zap.Error(err))
	}
	if changed {
		if !wrong && err == nil {
			srv.Metrics.AdapterReloads.WithLabelValues("success").Inc()
		}
		srv.Host.Log.Info("adapters changed", zap.String("because", because), zap.Int("adapters", a.Number()))
	}
}

// renewOwn makes a new catalog of dragoman's own tools and applies it. srv.reloading must be held.
func (srv *Server) renewOwn() error {
	was := srv.Now()
	next := *was
	shaping, unshaped := shape.New(was.Config, was.Keys, srv.Adapters.Rules(), was.Shaping, srv.shapes, srv.Host.Store)
	if unshaped == nil {
		next.Shaping = shaping
	}
	var err error
	if next.Own, err = owntools.New(was.Table, owntools.WithMore(srv.own, next.Shaping), was.Config.Adapters.Instructions, was.Own); err != nil {
		return errors.Join(unshaped, err)
	}
	if err := next.Admits(); err != nil {
		return errors.Join(unshaped, err)
	}
	srv.use(&next)
	return unshaped
}

// use makes next the current setup, and notifies clients if the list of dragoman's own tools has
// changed.
func (srv *Server) use(next *setup.Setup) {
	was := srv.Setup.Replace(next)
	if was != nil {
		was.Own.ReplacedBy(next.Own)
	}
	srv.Connected()
}

// Reload applies cfg, which must be valid, in one step; if that fails, nothing changes. Sessions that
// began before keep their translation. Sessions with a server at a URL use the new
// upstream settings; all others keep the old ones until their process restarts. Settings that take
// effect only after a restart of dragoman keep their values, and a log line names them. Files that cfg
// names are read again.
func (srv *Server) Reload(cfg config.Config) error {
	srv.reloading.Lock()
	defer srv.reloading.Unlock()
	if srv.Host.Draining.Err() != nil {
		return report.ErrShutdown
	}
	was := srv.Now()
	if (cfg.TLS == config.TLS{}) != (was.Config.TLS == config.TLS{}) {
		return errors.New("tls: a listener cannot start or stop using it without a restart")
	}
	if kept := keep(&cfg, was.Config); len(kept) > 0 {
		srv.Host.Log.Warn("these settings changed and take effect after a restart", zap.Strings("settings", kept))
	}
	o, renewed := was.Origin, false
	if was.Origin.Renew != nil && reachedAnew(cfg, was.Config) {
		next, err := was.Origin.Renew(cfg, srv.Host.Log)
		if err != nil {
			return err
		}
		o, renewed = next.Bounded(srv.running), true
	}
	next, err := setup.New(cfg, o, was)
	shown := false
	var roots *x509.CertPool
	if err == nil {
		roots, err = srv.Adapters.Roots(&cfg.Adapters)
	}
	if err == nil {
		shown, err = srv.Adapters.Show(&cfg.Adapters)
	}
	if err == nil {
		next.Shaping, err = shape.New(cfg, next.Keys, srv.Adapters.Rules(), was.Shaping, srv.shapes, srv.Host.Store)
	}
	if err == nil {
		next.Own, err = owntools.New(next.Table, owntools.WithMore(srv.own, next.Shaping), cfg.Adapters.Instructions, was.Own)
	}
	if err == nil && next.GrantsDiffer(was) {
		next.Own.Anew()
	}
	if err == nil {
		err = next.Admits()
	}
	if err == nil && srv.at != nil {
		err = next.MayServe(srv.at)
	}
	if err != nil {
		if renewed && o.Close != nil {
			o.Close()
		}
		if shown {
			_, undone := srv.Adapters.Show(&was.Config.Adapters)
			err = errors.Join(err, undone)
		}
		return err
	}
	srv.use(next)
	srv.Adapters.Trust(roots)
	if renewed && was.Origin.Dialer != nil && o.Dialer != nil {
		was.Origin.Dialer.ReplacedBy(o.Dialer) // for sessions that are not resumed, since their client is on a pipe
	}
	if next.Config.Session.KeyFile != "" && srv.Host.Store.Shared() {
		srv.Host.Store.Renew(next.Keys)
	}
	was.Relay.Close()
	next.Shaping.Load(srv.Host)
	srv.forgetAnswers() // the old translators made them
	if srv.face != nil {
		srv.face.Renew(next.Renewable())
	}
	if renewed {
		srv.web.RetirePooled()
		srv.Eras.Forget()
		o.Credential.TellLent(next.Server, srv.Host.Log)
		srv.remark(&was.Config)
		select {
		case srv.changed <- struct{}{}:
		default: // the look that is due will see it
		}
	}
	srv.Replicas.Forget() // their certificates, or the trusted ones, may have changed
	srv.Modern.Retire()
	srv.Table.Renew(cfg.Session.Max, next.Sealer, renewed)
	if renewed && was.Origin.Shared != nil {
		was.Origin.Shared.Retire()
	}
	if renewed && was.Origin.Close != nil {
		srv.outdated = append(srv.outdated, was.Origin.Close) // not closed now, as exchanges may use it
	}
	return nil
}

// reachedAnew reports whether cfg may reach the server in another way than was.
func reachedAnew(cfg, was config.Config) bool {
	u := cfg.Upstream
	return !reflect.DeepEqual(u, was.Upstream) || cfg.Limits.UpstreamMessage != was.Limits.UpstreamMessage ||
		cfg.OAuth.Rewrite != was.OAuth.Rewrite || cfg.OAuth.PublicURL != was.OAuth.PublicURL ||
		u.CAFile != "" || u.ClientCert != "" || u.Auth.ClientSecretFile != "" || u.Auth.KeyFile != "" // the content of these files may have changed
}

// keep copies the lasting settings of was into cfg, and returns the paths of those
// that differed.
func keep(cfg *config.Config, was config.Config) (kept []string) {
	old := make(map[string]reflect.Value)
	_ = was.EachSetting(func(path string, v reflect.Value) error {
		old[path] = v
		return nil
	})
	_ = cfg.EachSetting(func(path string, v reflect.Value) error {
		if !lasting(path) {
			return nil
		}
		same := reflect.DeepEqual(v.Interface(), old[path].Interface())
		if (v.Kind() == reflect.Slice || v.Kind() == reflect.Map) && v.Len() == 0 && old[path].Len() == 0 {
			same = true
		}
		if !same {
			kept = append(kept, path)
			v.Set(old[path])
		}
		return nil
	})
	return kept
}

// lasting reports whether a setting takes effect only after a restart of dragoman: a listener is made with it, or
// the sessions with the server depend on it.
func lasting(path string) bool {
	switch path {
	case "listen", "listen_mode", "path", "sse_path", "health_paths", "admin.listen",
		"upstream.url", "upstream.command", "upstream.dir", "credentials", "credential_store",
		"limits.client_message", "limits.in_hand":
		return true
	case "adapters.mode", "adapters.pin", "adapters.tokens", "adapters.instructions_text":
		return false
	}
	return strings.HasPrefix(path, "adapters.") || strings.HasPrefix(path, "record.") || strings.HasPrefix(path, "store.") || path == "inspect.enabled" || path == "inspect.token" || path == "inspect.keep"
}

// certificate returns the current certificate of the listener.
func (srv *Server) certificate(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	return srv.Now().Guard.Cert, nil
}
