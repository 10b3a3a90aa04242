package setup

import (
	"crypto/tls"
	"errors"
	"fmt"
	"maps"
	"net"
	"slices"
	"strings"

	"github.com/dragoman-proxy/dragoman/proxy/config"
	"github.com/dragoman-proxy/dragoman/proxy/features/shape"
	"github.com/dragoman-proxy/dragoman/proxy/ops/trace"
	"github.com/dragoman-proxy/dragoman/proxy/transport/downstream"
)

// Listener holds the settings of the listener: which clients may connect, and the certificate.
type Listener struct {
	tokens []string
	weak   string            // says which token can be guessed, and why; "" if none can
	names  map[string]string // of tokens, by downstream.Request.Guest
	Cert   *tls.Certificate  // nil for none

}

// NewListener reads the files of the listener's settings that cfg names.
func NewListener(cfg config.Config) (l Listener, err error) {
	at := func(path string) string {
		if from := cfg.Auth.From[path]; from != "" {
			return from + ": " + path
		}
		return path
	}
	for i, token := range cfg.Auth.Tokens {
		l.admit(token, at(fmt.Sprintf("auth.tokens[%d]", i)))
	}
	l.names = map[string]string{}
	for _, name := range slices.Sorted(maps.Keys(cfg.Auth.NamedTokens)) {
		token := cfg.Auth.NamedTokens[name]
		l.admit(token, at("auth.named_tokens."+name))
		l.names[downstream.GuestOf(token)] = name
	}
	if file := cfg.Auth.TokenFile; file != "" {
		text, err := config.ReadSmall(file)
		if err != nil {
			return l, fmt.Errorf("auth.token_file: %w", err)
		}
		found := strings.Fields(string(text))
		if len(found) == 0 {
			return l, fmt.Errorf("auth.token_file: %s holds no token", file)
		}
		for i, token := range found {
			l.admit(token, fmt.Sprintf("auth.token_file: token %d of %s", i+1, file))
		}
	}
	if cfg.TLS.Cert != "" {
		pair, err := config.KeyPair(cfg.TLS.Cert, cfg.TLS.Key)
		if err != nil {
			return l, fmt.Errorf("tls: %w", err)
		}
		l.Cert = &pair
	}
	return l, nil
}

// admit adds a token of clients, which has this place in the configuration.
func (l *Listener) admit(token, place string) {
	l.tokens = append(l.tokens, token)
	if why := config.Weakness(token); why != "" && l.weak == "" {
		l.weak = place + " " + why
	}
}

var ErrLends = errors.New("listen: this address is not a loopback address, and any client that reaches it would use the credentials of upstream and of adapters: " +
	"set auth.tokens, or auth.trust_network where the network keeps others out")

// ErrUnverified is the error of [Setup.MayServe] for upstream.verify: none where other machines can connect.
var ErrUnverified = errors.New("upstream.verify: none is for a listener on this machine alone, and other machines can reach the address in listen: " +
	"listen on a loopback address, or trust the server's certificate with upstream.ca_file (--ca FILE)")

// A WeakTokenError says that a token of clients can be guessed where other machines can try.
type WeakTokenError struct{ Token string }

// Error says which token it is, and what to do.
func (e *WeakTokenError) Error() string {
	return e.Token + ", and other machines can reach the address in listen: use a random one (openssl rand -base64 32), " +
		"or set auth.trust_network: true where the network keeps others out"
}

// MayServe returns an error for an address at which others could use dragoman's credentials, or guess a token, and for the one to which
// the server's URL leads.
func (s *Setup) MayServe(at net.Addr) error {
	if err := s.leadsHere(at); err != nil {
		return err
	}
	if s.Guard.weak != "" && !IsLoopback(at) && !s.Config.Auth.TrustNetwork {
		return &WeakTokenError{s.Guard.weak}
	}
	u := s.Config.Upstream
	if u.Unverified() && !IsLoopback(at) {
		return ErrUnverified
	}
	lends := len(u.Headers) > 0 || u.ClientCert != "" || u.Auth.Lends() || len(s.Config.Adapters.Sources) > 0
	if lends && !IsLoopback(at) && len(s.Guard.tokens) == 0 && !s.Config.Auth.TrustNetwork {
		return ErrLends
	}
	return nil
}

// IsLoopback reports whether an address can be reached only from this machine, as loopback and unix sockets can.
func IsLoopback(at net.Addr) bool {
	tcp, ok := at.(*net.TCPAddr)
	return !ok || tcp.IP.IsLoopback()
}

// Renewable returns the listener's settings that can change while it is open.
func (s *Setup) Renewable() downstream.Renewable {
	callers := s.Config.Adapters.CallerHeaders()
	return downstream.Renewable{
		AllowedHosts: s.Config.AllowedHosts, Tokens: s.Guard.tokens, TokenHeader: s.Config.Auth.Header, Heartbeat: s.Config.Heartbeat,
		Pages: s.Config.CORS.Origins, PageHeaders: slices.Concat(callers, s.Config.CORS.Headers), PageReads: s.Config.Upstream.PassHeaders,
		Once: append(callers, shape.BudgetHeader, trace.TimingHeader),
	}
}
