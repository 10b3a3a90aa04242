package origin

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os/exec"
	"slices"
	"strings"

	"github.com/dragoman-proxy/dragoman/dial"
	"github.com/dragoman-proxy/dragoman/proxy/auth/oauth"
	"github.com/dragoman-proxy/dragoman/proxy/auth/oauthrelay"
	"github.com/dragoman-proxy/dragoman/proxy/bytes/unixsocket"
	"github.com/dragoman-proxy/dragoman/proxy/config"
	"github.com/dragoman-proxy/dragoman/proxy/transport/upstream"
)

// TLS returns the TLS settings for connections to the server and its authorization server, or nil for the defaults. Certificates are
// verified.
func TLS(u config.Upstream) (*tls.Config, error) {
	roots := u.Extra.All
	if u.CAFile != "" {
		var err error
		if roots, err = config.Certificates(u.CAFile); err != nil {
			return nil, fmt.Errorf("upstream.ca_file: %w", err)
		}
	}
	if roots == nil && u.ClientCert == "" {
		return nil, nil
	}
	c := &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: roots}
	if u.ClientCert != "" {
		pair, err := config.KeyPair(u.ClientCert, u.ClientKey)
		if err != nil {
			return nil, fmt.Errorf("upstream.client_cert: %w", err)
		}
		c.Certificates = []tls.Certificate{pair}
	}
	return c, nil
}

// WebProxy returns the HTTP proxy that the environment names for a URL, by HTTPS_PROXY, HTTP_PROXY
// and NO_PROXY.
func WebProxy(u *url.URL) (*url.URL, error) {
	return http.ProxyFromEnvironment(&http.Request{URL: u})
}

// ready returns what checks whether something listens at a URL, which is also given as text; nil if nothing can.
func (w World) ready(text string, at *url.URL) func(context.Context) error {
	if path, _, err := unixsocket.Server(text); unixsocket.Is(text) && err == nil {
		return w.connects("unix", path, unixsocket.Scheme+path)
	}
	return w.reachable(at)
}

// reachable returns a function that checks whether something listens at u, without sending
// anything. It returns nil if u is reached through a proxy, since the check is impossible then.
func (w World) reachable(u *url.URL) func(context.Context) error {
	if via, err := WebProxy(u); via != nil || err != nil {
		return nil
	}
	port := u.Port()
	if port == "" {
		port = u.Scheme // package net knows the port of each scheme
	}
	at := net.JoinHostPort(u.Hostname(), port)
	return w.connects("tcp", at, at)
}

// connects returns a function that connects to at, an address that errors call shown.
func (w World) connects(network, at, shown string) func(context.Context) error {
	return func(ctx context.Context) error {
		c, err := (&dial.Dialer{Network: w.Dial}).DialContext(ctx, network, at)
		if err != nil {
			return &upstream.Error{Op: "connect", Addr: shown, Err: err}
		}
		return c.Close()
	}
}

// startable returns a function that checks whether the command exists; nil if it is no program of the operating system.
func (w World) startable(command string) func(context.Context) error {
	if w.Start != nil {
		return nil
	}
	return func(context.Context) error {
		_, err := exec.LookPath(command)
		return err
	}
}

// NewRelay makes the relay for OAuth clients. It returns nil if there is no server at a URL of http or https, or
// if oauth.relay is none.
func (w World) NewRelay(cfg config.Config) (*oauthrelay.Relay, error) {
	u := cfg.Upstream
	if u.URL == "" || u.AtSocket() || cfg.OAuth.Relay == "none" {
		return nil, nil
	}
	at, err := url.Parse(u.URL)
	if err != nil {
		return nil, nil // Of reports the invalid URL
	}
	secured, err := TLS(u)
	if err != nil {
		return nil, err
	}
	c := oauthrelay.Config{
		Server: at, Path: cfg.Path, Metadata: cfg.OAuth.Relay == "metadata", Paths: cfg.OAuth.Paths, Forwarded: cfg.OAuth.Forwarded,
		TLS: secured, Proxy: WebProxy, Dial: w.Dial, DialTimeout: u.ConnectTimeout,
	}
	if cfg.OAuth.PublicURL != "" {
		if c.Public, err = url.Parse(cfg.OAuth.PublicURL); err != nil {
			return nil, fmt.Errorf("oauth.public_url: %w", err)
		}
		c.Rewrite = cfg.OAuth.Rewrite
	}
	if cfg.OAuth.OldClients {
		c.Copy = oauth.NewMetadataReader(at, u.Auth.AllowHTTP, secured, w.Dial)
	}
	return oauthrelay.New(c), nil
}

// rewriteChallenge returns an error in place of a refusal, whose challenge leads clients to the metadata of public.
func rewriteChallenge(public *url.URL) func(*upstream.StatusError) error {
	return func(refusal *upstream.StatusError) error {
		again := *refusal
		again.Header = slices.Clone(refusal.Header)
		for i, h := range again.Header {
			if strings.EqualFold(h.Name, "WWW-Authenticate") {
				again.Header[i].Value = oauthrelay.RewriteChallenge(h.Value, public)
			}
		}
		return &again
	}
}
