// Package storeconfig opens the store that a configuration names.
package storeconfig

import (
	"crypto/tls"
	"fmt"

	"github.com/dragoman-proxy/dragoman/proxy/config"
	"github.com/dragoman-proxy/dragoman/proxy/store"
	"github.com/dragoman-proxy/dragoman/proxy/store/redisstore"
)

// Open returns the store of cfg with these keys, those of session.key_file. Without store.url it is the memory of this process.
// It does not connect yet. o has what it tells.
func Open(cfg *config.Config, keys [][]byte, o store.Options) (*store.Store, error) {
	return OpenAt(nil, cfg, keys, o)
}

// OpenAt is Open with engine as what is at store.url; nil for what is there.
func OpenAt(engine store.Engine, cfg *config.Config, keys [][]byte, o store.Options) (*store.Store, error) {
	s := &cfg.Store
	o.Prefix, o.Timeout, o.MaxValue = s.Prefix+":", s.Timeout, int(s.MaxValue)
	if s.URL == "" {
		o.Keys = nil
		return store.New(store.NewMemory(store.Bounds{}), o), nil
	}
	if engine == nil {
		var err error
		if engine, err = Engine(s); err != nil {
			return nil, err
		}
	}
	o.Keys = keys
	return store.New(engine, o), nil
}

// Engine returns the server at s.URL, without connecting.
func Engine(s *config.Store) (*redisstore.Engine, error) {
	at, err := s.Server()
	if err != nil {
		return nil, fmt.Errorf("store.url %w", err)
	}
	o := redisstore.Options{Network: at.Network, Addresses: at.Addresses, Database: at.Database, Sentinel: s.Sentinel, Username: s.Username}
	if s.Password != "" || s.PasswordFile != "" {
		o.Password = s.GetPassword
		if _, err := s.GetPassword(); err != nil {
			return nil, err
		}
	}
	o.SentinelPassword = s.SentinelPassword
	if at.TLS {
		o.TLS = func() (*tls.Config, error) { return secured(s) }
		if _, err := secured(s); err != nil {
			return nil, err
		}
	}
	return redisstore.New(o), nil
}

// secured returns the settings of a connection with TLS to the server at s.URL, from the files as they are now.
func secured(s *config.Store) (c *tls.Config, err error) {
	c = &tls.Config{MinVersion: tls.VersionTLS12}
	if s.CAFile != "" {
		if c.RootCAs, err = config.Certificates(s.CAFile); err != nil {
			return nil, fmt.Errorf("store.ca_file: %w", err)
		}
	}
	if s.ClientCert != "" {
		pair, err := config.KeyPair(s.ClientCert, s.ClientKey)
		if err != nil {
			return nil, fmt.Errorf("store.client_cert: %w", err)
		}
		c.Certificates = []tls.Certificate{pair}
	}
	return c, nil
}
