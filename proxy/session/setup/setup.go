// Package setup has what follows from a configuration: translation tables, connections to the server, keys, limits, gates,
// and which client may do what.
//
// A [Setup] is immutable and made whole: if one setting is wrong, there is none. A reload makes another and puts it in
// force in one step ([Current]), so that a message is never handled by half of each. The package starts nothing and
// handles no message.
package setup

import (
	"fmt"
	"maps"
	"net"
	"net/url"
	"slices"
	"strings"

	"github.com/dragoman-proxy/dragoman/adapterrt/secret"
	"github.com/dragoman-proxy/dragoman/proxy/auth/oauthrelay"
	"github.com/dragoman-proxy/dragoman/proxy/bytes/unixsocket"
	"github.com/dragoman-proxy/dragoman/proxy/config"
	"github.com/dragoman-proxy/dragoman/proxy/features/adapters"
	"github.com/dragoman-proxy/dragoman/proxy/features/footprint"
	"github.com/dragoman-proxy/dragoman/proxy/features/gate"
	"github.com/dragoman-proxy/dragoman/proxy/features/owntools"
	"github.com/dragoman-proxy/dragoman/proxy/features/shape"
	"github.com/dragoman-proxy/dragoman/proxy/observe/redact"
	"github.com/dragoman-proxy/dragoman/proxy/ops/trace"
	"github.com/dragoman-proxy/dragoman/proxy/origin"
	"github.com/dragoman-proxy/dragoman/proxy/replicas/principal"
	"github.com/dragoman-proxy/dragoman/proxy/replicas/sealed"
	"github.com/dragoman-proxy/dragoman/proxy/transport/downstream"
	"github.com/dragoman-proxy/dragoman/translate"
)

// Setup is all that follows from a configuration. It is immutable: a new
// configuration makes a new Setup, which replaces the old one in one step.
type Setup struct {
	Config    config.Config
	Table     *translate.Table
	Origin    origin.Origin
	Silence   *SilenceLimits
	Guard     Listener
	Keys      [][]byte // the keys that seal session ids
	Sealer    *sealed.Sealer
	Server    string            // the server's name in the log
	Secrets   secret.Known      // which no log line and no error may hold
	Redactor  *redact.Redactor  // removes secrets from what is shown of messages
	Address   string            // the server's host and port; "" for a process
	Passed    []string          // names of the client's headers that are passed to the server
	Own       *owntools.Catalog // tools that dragoman serves itself; nil if there are none
	Shaping   *shape.Shaping    // shapes results; nil if it is turned off
	Footprint *footprint.Policy // what lists of tools may cost
	Gates     []gate.Gate
	Relay     *oauthrelay.Relay // relays OAuth clients' requests to the server; nil if there is none
}

// New makes the setup for cfg, with sessions at o. was is the previous setup, or nil.
func New(cfg config.Config, o origin.Origin, was *Setup) (*Setup, error) {
	table, err := translate.NewTable(cfg.Contract)
	if err != nil {
		return nil, fmt.Errorf("contract.%w", err)
	}
	s := &Setup{Config: cfg, Table: table, Origin: o, Silence: newSilenceLimits(cfg), Passed: slices.Clone(trace.Headers[:]), Server: origin.Name(cfg.Upstream), Address: addressOf(cfg.Upstream), Secrets: o.Known(&cfg), Gates: gate.New(cfg.Gates)}
	if s.Guard, err = NewListener(cfg); err != nil {
		return nil, err
	}
	if was != nil && cfg.Session.KeyFile == "" && was.Config.Session.KeyFile == "" {
		s.Keys = was.Keys
	} else if s.Keys, err = sealed.ReadKeys(cfg.Session.KeyFile); err != nil {
		return nil, err
	}
	if s.Sealer, err = sealed.New(s.Keys, cfg.Upstream, cfg.Session.MaxAge); err != nil {
		return nil, fmt.Errorf("session.key_file: %w", err)
	}
	if s.Relay, err = o.World.NewRelay(cfg); err != nil {
		return nil, err
	}
	if s.Redactor, err = newRedactor(&s.Config, &o); err != nil {
		return nil, err
	}
	s.Footprint = footprint.NewPolicy(&cfg.Footprint)
	isAuthorization := func(name string) bool { return strings.EqualFold(name, "Authorization") }
	if !cfg.Upstream.Auth.Lends() && !slices.ContainsFunc(slices.Collect(maps.Keys(cfg.Upstream.Headers)), isAuthorization) {
		s.Passed = append(s.Passed, "Authorization", "DPoP")
	}
	return s, nil
}

// GrantOf returns what a client may use of adapters: the name of an entry of adapters.tokens, or "" for
// everything.
func (s *Setup) GrantOf(by *downstream.Sender) string {
	if by.Local || len(s.Config.Adapters.Sources) == 0 {
		return ""
	}
	if name := s.Guard.names[by.Guest]; name != "" {
		if _, ok := s.Config.Adapters.Tokens[name]; ok {
			return name
		}
	}
	if _, ok := s.Config.Adapters.Tokens[config.OtherClients]; ok {
		return config.OtherClients
	}
	return ""
}

// GrantsDiffer reports whether a client may have another grant than before, by its token's name.
func (s *Setup) GrantsDiffer(was *Setup) bool {
	known := func(s *Setup) []string { return slices.Sorted(maps.Keys(s.Config.Adapters.Tokens)) }
	return !maps.Equal(s.Guard.names, was.Guard.names) || !slices.Equal(known(s), known(was))
}

// OwnFor returns dragoman's own tools as a client sees them; nil if there are none.
func (s *Setup) OwnFor(by *downstream.Sender) *owntools.Catalog { return s.Own.For(s.GrantOf(by)) }

// SharedKey returns a key that all replicas have, or nil if each replica has its own.
func (s *Setup) SharedKey() []byte {
	if s.Config.Session.KeyFile == "" {
		return nil
	}
	return s.Keys[0]
}

// OwnerOf returns the owner mark of the client that sent a request with these headers. guest stands
// for the token that the client was admitted with.
func (s *Setup) OwnerOf(guest string, header func(name string) string) sealed.Owner {
	return principal.Owner(s.Config.Bridge.Principal, guest, header)
}

// Collides reports whether a tool of this source must not hide a tool of the server.
func (s *Setup) Collides(own owntools.Source) bool {
	_, adapter := own.(*adapters.Adapters)
	return adapter && s.Config.Adapters.OnClash != config.ClashShadow
}

// Admits returns an error if dragoman's own tools alone exceed the size limit of the list.
func (s *Setup) Admits() error {
	if s.Own == nil {
		return nil
	}
	return s.Footprint.Admit(s.Own.List())
}

// newRedactor returns what removes secrets from what is shown of messages: beside those that no line holds, all settings that may be secrets.
func newRedactor(cfg *config.Config, o *origin.Origin) (*redact.Redactor, error) {
	r, err := redact.New(redact.Options{Secrets: o.Known(cfg, cfg.Secrets()...), Paths: cfg.Inspect.Redact, Payloads: redact.Payloads(cfg.Inspect.Payloads)})
	if err != nil {
		return nil, fmt.Errorf("inspect.redact: %w", err)
	}
	return r, nil
}

// addressOf returns the host and port of the server, the path behind "unix:" of its socket, or "" for a process.
func addressOf(cfg config.Upstream) string {
	if path, _, err := unixsocket.Server(cfg.URL); cfg.AtSocket() && err == nil {
		return unixsocket.Scheme + path
	}
	u, err := url.Parse(cfg.URL)
	if err != nil || u.Host == "" {
		return ""
	}
	port := u.Port()
	if port == "" {
		port = map[string]string{"http": "80", "https": "443"}[u.Scheme]
	}
	return net.JoinHostPort(u.Hostname(), port)
}
