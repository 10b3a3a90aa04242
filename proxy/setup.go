package proxy

import (
	"crypto/tls"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"go.uber.org/zap"

	"github.com/dragoman-proxy/dragoman/proxy/clienterror"
	"github.com/dragoman-proxy/dragoman/proxy/config"
	"github.com/dragoman-proxy/dragoman/proxy/downstream"
	"github.com/dragoman-proxy/dragoman/proxy/footprint"
	"github.com/dragoman-proxy/dragoman/proxy/gate"
	"github.com/dragoman-proxy/dragoman/proxy/oauthrelay"
	"github.com/dragoman-proxy/dragoman/proxy/origin"
	"github.com/dragoman-proxy/dragoman/proxy/owntools"
	"github.com/dragoman-proxy/dragoman/proxy/redact"
	"github.com/dragoman-proxy/dragoman/proxy/sealed"
	"github.com/dragoman-proxy/dragoman/proxy/shape"
	"github.com/dragoman-proxy/dragoman/proxy/trace"
	"github.com/dragoman-proxy/dragoman/translate"
)

// A setup is all that follows from a configuration. It is immutable: a new
// configuration makes a new setup, which replaces the old one in one step.
type setup struct {
	cfg       config.Config
	table     *translate.Table
	origin    origin.Origin
	silence   *silenceLimits
	guard     listener
	keys      [][]byte // the keys that seal session ids
	sealer    *sealed.Sealer
	server    string            // the server's name in the log
	secrets   []string          // the secrets in cfg, which no log line may hold
	redactor  *redact.Redactor  // removes secrets from what is shown of messages
	address   string            // the server's host and port; "" for a process
	passed    []string          // names of the client's headers that are passed to the server
	own       *owntools.Catalog // tools that dragoman serves itself; nil if there are none
	shaping   *shape.Shaping    // shapes results; nil if it is turned off
	footprint *footprint.Policy // what lists of tools may cost
	gates     []gate.Gate
	relay     *oauthrelay.Relay // relays OAuth clients' requests to the server; nil if there is none
}

// newSetup makes the setup for cfg, with sessions at o. was is the previous setup, or nil.
func newSetup(cfg config.Config, o origin.Origin, was *setup) (*setup, error) {
	table, err := translate.NewTable(cfg.Contract)
	if err != nil {
		return nil, fmt.Errorf("contract.%w", err)
	}
	s := &setup{cfg: cfg, table: table, origin: o, silence: newSilenceLimits(cfg), passed: slices.Clone(trace.Headers[:]), server: origin.Name(cfg.Upstream), address: addressOf(cfg.Upstream), secrets: origin.Secrets(cfg.Upstream), gates: gate.New(cfg.Gates)}
	if s.guard, err = newListener(cfg); err != nil {
		return nil, err
	}
	if was != nil && cfg.Session.KeyFile == "" && was.cfg.Session.KeyFile == "" {
		s.keys = was.keys
	} else if s.keys, err = sealed.ReadKeys(cfg.Session.KeyFile); err != nil {
		return nil, err
	}
	if s.sealer, err = sealed.New(s.keys, cfg.Upstream, cfg.Session.MaxAge); err != nil {
		return nil, fmt.Errorf("session.key_file: %w", err)
	}
	if s.relay, err = origin.NewRelay(cfg); err != nil {
		return nil, err
	}
	if s.redactor, err = newRedactor(&s.cfg, s.secrets); err != nil {
		return nil, err
	}
	s.footprint = footprint.NewPolicy(&cfg.Footprint)
	isAuthorization := func(name string) bool { return strings.EqualFold(name, "Authorization") }
	if !cfg.Upstream.Auth.Lends() && !slices.ContainsFunc(slices.Collect(maps.Keys(cfg.Upstream.Headers)), isAuthorization) {
		s.passed = append(s.passed, "Authorization")
	}
	return s, nil
}

// grantOf returns what a client may use of adapters: the name of an entry of adapters.tokens, or "" for
// everything.
func (s *setup) grantOf(by *downstream.Sender) string {
	if by.Local || len(s.cfg.Adapters.Sources) == 0 {
		return ""
	}
	if name := s.guard.names[by.Guest]; name != "" {
		if _, ok := s.cfg.Adapters.Tokens[name]; ok {
			return name
		}
	}
	if _, ok := s.cfg.Adapters.Tokens[config.OtherClients]; ok {
		return config.OtherClients
	}
	return ""
}

// grantsDiffer reports whether a client may have another grant than before, by its token's name.
func (s *setup) grantsDiffer(was *setup) bool {
	known := func(s *setup) []string { return slices.Sorted(maps.Keys(s.cfg.Adapters.Tokens)) }
	return !maps.Equal(s.guard.names, was.guard.names) || !slices.Equal(known(s), known(was))
}

// ownFor returns dragoman's own tools as a client sees them; nil if there are none.
func (s *setup) ownFor(by *downstream.Sender) *owntools.Catalog { return s.own.For(s.grantOf(by)) }

// now returns the current setup. A caller that needs several of its fields to be consistent calls now
// once.
func (srv *Server) now() *setup { return srv.setup.Load() }

// lasting reports whether a setting takes effect only after a restart of dragoman: a listener is made with it, or
// the sessions with the server depend on it.
func lasting(path string) bool {
	switch path {
	case "listen", "path", "admin.listen",
		"upstream.url", "upstream.command", "upstream.dir", "credentials", "credential_store",
		"limits.client_message", "limits.in_hand":
		return true
	case "adapters.mode", "adapters.pin", "adapters.tokens":
		return false
	}
	return strings.HasPrefix(path, "adapters.") || strings.HasPrefix(path, "record.") || path == "inspect.enabled" || path == "inspect.token" || path == "inspect.keep"
}

// sharedKey returns a key that all replicas have, or nil if each replica has its own.
func (s *setup) sharedKey() []byte {
	if s.cfg.Session.KeyFile == "" {
		return nil
	}
	return s.keys[0]
}

// Reload applies cfg, which must be valid, in one step; if that fails, nothing changes. Sessions that
// began before keep their translation. Sessions with a server over Streamable HTTP use the new
// upstream settings; all others keep the old ones until their process restarts. Settings that take
// effect only after a restart of dragoman keep their values, and a log line names them. Files that cfg
// names are read again.
func (srv *Server) Reload(cfg config.Config) error {
	srv.reloading.Lock()
	defer srv.reloading.Unlock()
	if srv.host.Draining.Err() != nil {
		return clienterror.ErrShutdown
	}
	was := srv.now()
	if (cfg.TLS == config.TLS{}) != (was.cfg.TLS == config.TLS{}) {
		return errors.New("tls: a listener cannot start or stop using it without a restart")
	}
	if kept := keep(&cfg, was.cfg); len(kept) > 0 {
		srv.host.Log.Warn("these settings changed and take effect after a restart", zap.Strings("settings", kept))
	}
	o, renewed := was.origin, false
	if was.origin.Renew != nil && reachedAnew(cfg, was.cfg) {
		next, err := was.origin.Renew(cfg, srv.host.Log)
		if err != nil {
			return err
		}
		o, renewed = next.Bounded(srv.running), true
	}
	next, err := newSetup(cfg, o, was)
	shown := false
	if err == nil {
		shown, err = srv.adapters.Show(&cfg.Adapters)
	}
	if err == nil {
		next.shaping, err = shape.New(cfg, next.keys, srv.adapters.Rules(), was.shaping, srv.shapes)
	}
	if err == nil {
		next.own, err = owntools.New(next.table, owntools.WithMore(srv.own, next.shaping), cfg.Adapters.Instructions, was.own)
	}
	if err == nil && next.grantsDiffer(was) {
		next.own.Anew()
	}
	if err == nil {
		err = next.admits()
	}
	if err == nil && srv.at != nil {
		err = next.mayServe(srv.at)
	}
	if err != nil {
		if renewed && o.Close != nil {
			o.Close()
		}
		if shown {
			_, undone := srv.adapters.Show(&was.cfg.Adapters)
			err = errors.Join(err, undone)
		}
		return err
	}
	srv.use(next)
	was.relay.Close()
	next.shaping.Load(srv.host)
	srv.forgetAnswers() // the old translators made them
	if srv.face != nil {
		srv.face.Renew(next.renewable())
	}
	if renewed {
		srv.eras.Forget()
	}
	srv.replicas.Forget() // their certificates, or the trusted ones, may have changed
	srv.modern.Retire()
	srv.sessions.renew(cfg.Session.Max, next.sealer, renewed)
	if renewed && was.origin.Shared != nil {
		was.origin.Shared.Retire()
	}
	if renewed && was.origin.Close != nil {
		srv.outdated = append(srv.outdated, was.origin.Close) // not closed now, as exchanges may use it
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

// certificate returns the current certificate of the listener.
func (srv *Server) certificate(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	return srv.now().guard.cert, nil
}
