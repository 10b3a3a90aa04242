package storeconfig

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/dragoman-proxy/dragoman/proxy/config"
	"github.com/dragoman-proxy/dragoman/proxy/store"
	"github.com/dragoman-proxy/dragoman/proxy/store/storetest"
	"github.com/dragoman-proxy/dragoman/proxy/tests/peertest"
)

// certificate writes a certificate for 127.0.0.1 that is its own authority, and its key.
func certificate(t *testing.T) (cert, key string) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	text := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, IsCA: true, BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, text, text, &private.PublicKey, private)
	if err != nil {
		t.Fatal(err)
	}
	secret, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	write := func(name, kind string, der []byte) string {
		file := filepath.Join(dir, name)
		if err := os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600); err != nil {
			t.Fatal(err)
		}
		return file
	}
	return write("cert", "CERTIFICATE", der), write("key", "PRIVATE KEY", secret)
}

// TestTLS checks that the server must be trusted, and that both sides show certificates.
func TestTLS(t *testing.T) {
	cert, key := certificate(t)
	other, _ := certificate(t)
	_, port, _ := net.SplitHostPort(peertest.Port(t))
	storetest.StartRedis(t, "tls-port "+port, "tls-cert-file "+cert, "tls-key-file "+key, "tls-ca-cert-file "+cert)
	for what, c := range map[string]struct {
		change func(*config.Store)
		ok     bool
	}{
		"trusted":        {func(*config.Store) {}, true},
		"not trusted":    {func(s *config.Store) { s.CAFile = other }, false},
		"no certificate": {func(s *config.Store) { s.ClientCert, s.ClientKey = "", "" }, false},
		"without TLS":    {func(s *config.Store) { s.URL = "redis://127.0.0.1:" + port }, false},
	} {
		cfg := config.Default()
		cfg.Store.URL, cfg.Store.Timeout = "rediss://127.0.0.1:"+port, 3*time.Second
		cfg.Store.CAFile, cfg.Store.ClientCert, cfg.Store.ClientKey = cert, cert, key
		if c.ok { // otherwise it waits as long as it may
			cfg.Store.Timeout = peertest.Patience
		}
		c.change(&cfg.Store)
		s, err := Open(&cfg, storetest.Keys(1), store.Options{Timeout: peertest.Patience})
		if err != nil {
			t.Fatal(err)
		}
		err = s.Set(t.Context(), store.Key{Kind: "test"}, nil, time.Minute)
		if c.ok != (err == nil) || err != nil && !errors.Is(err, store.ErrUnavailable) {
			t.Errorf("%s: %v", what, err)
		}
		s.Close()
	}
}

// TestRotatedFiles checks that the next connection uses the files as they are then.
func TestRotatedFiles(t *testing.T) {
	cert, key := certificate(t)
	otherCert, otherKey := certificate(t)
	_, port, _ := net.SplitHostPort(peertest.Port(t))
	storetest.StartRedis(t, "tls-port "+port, "tls-cert-file "+cert, "tls-key-file "+key, "tls-ca-cert-file "+cert)
	dir := t.TempDir()
	replace := func(name, by string) {
		t.Helper()
		text, err := os.ReadFile(by)
		if err == nil {
			err = os.WriteFile(filepath.Join(dir, name), text, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	replace("ca", otherCert)
	replace("cert", otherCert)
	replace("key", otherKey)
	s := config.Default().Store
	s.URL, s.CAFile, s.ClientCert, s.ClientKey = "rediss://127.0.0.1:"+port, filepath.Join(dir, "ca"), filepath.Join(dir, "cert"), filepath.Join(dir, "key")
	engine, err := Engine(&s)
	if err != nil {
		t.Fatal(err)
	}
	defer engine.Close()
	ping := func() error {
		ctx, stop := context.WithTimeout(t.Context(), peertest.Patience)
		defer stop()
		return engine.Ping(ctx)
	}
	if ping() == nil {
		t.Fatal("it connects to a server that it does not trust")
	}
	replace("ca", cert)
	if ping() == nil {
		t.Fatal("it connects with a certificate that the server does not trust")
	}
	replace("cert", cert)
	replace("key", key)
	if err := ping(); err != nil {
		t.Errorf("after the rotation: %v", err)
	}
}

// TestWithoutURL checks that the store is not shared then.
func TestWithoutURL(t *testing.T) {
	cfg := config.Default()
	s, err := Open(&cfg, storetest.Keys(1), store.Options{Timeout: peertest.Patience})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if s.Shared() {
		t.Error("it is shared")
	}
}
