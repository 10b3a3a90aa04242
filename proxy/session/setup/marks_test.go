package setup

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/base64"
	"encoding/binary"
	"encoding/pem"
	"math/big"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"
	"unicode/utf16"

	"github.com/dragoman-proxy/dragoman/proxy/auth/oauth"
	"github.com/dragoman-proxy/dragoman/proxy/config"
	"github.com/dragoman-proxy/dragoman/proxy/origin"
	"github.com/dragoman-proxy/dragoman/proxy/replicas/sealed"
)

// TestByteOrderMarks checks that every file with a secret, a key or a certificate may be one that an editor or a shell of Windows has
// written.
func TestByteOrderMarks(t *testing.T) {
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	is := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true}
	der, err := x509.CreateCertificate(rand.Reader, is, is, &private.PublicKey, private)
	if err != nil {
		t.Fatal(err)
	}
	secret, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	for name, written := range map[string]func(string) []byte{
		"UTF-8": func(text string) []byte { return []byte("\ufeff" + text) },
		"UTF-16": func(text string) (b []byte) {
			for _, unit := range utf16.Encode([]rune("\ufeff" + text)) {
				b = binary.LittleEndian.AppendUint16(b, unit)
			}
			return b
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			file := func(name, text string) string {
				t.Helper()
				path := filepath.Join(dir, name)
				if err := os.WriteFile(path, written(text), 0o600); err != nil {
					t.Fatal(err)
				}
				return path
			}
			cert := file("cert", string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})))
			key := file("key", string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: secret})))
			tokens := file("tokens", "one\r\ntwo\r\n")

			cfg := config.Default()
			cfg.Auth.TokenFile, cfg.TLS.Cert, cfg.TLS.Key = tokens, cert, key
			if l, err := NewListener(cfg); err != nil || !slices.Equal(l.tokens, []string{"one", "two"}) {
				t.Errorf("the listener: %q %v", l.tokens, err)
			}
			if _, err := origin.TLS(config.Upstream{CAFile: cert, ClientCert: cert, ClientKey: key}); err != nil {
				t.Errorf("upstream: %v", err)
			}
			if _, err := oauth.ReadKey(key); err != nil {
				t.Errorf("upstream.auth.key_file: %v", err)
			}
			if got, err := oauth.ReadSecret(file("secret", "s3cr3t\n")); err != nil || got != "s3cr3t" {
				t.Errorf("upstream.auth.client_secret_file: %q %v", got, err)
			}
			if _, err := sealed.ReadKeys(file("keys", base64.StdEncoding.EncodeToString(make([]byte, sealed.KeyBytes)))); err != nil {
				t.Errorf("session.key_file: %v", err)
			}
			if got, err := (&config.Store{PasswordFile: file("password", "p w\r\n")}).GetPassword(); err != nil || got != "p w" {
				t.Errorf("store.password_file: %q %v", got, err)
			}
			yaml := file("c.yaml", "session: {max: 7}\n")
			if got, err := (config.Sources{File: yaml}).Read(); err != nil || got.Session.Max != 7 {
				t.Errorf("the configuration: %v", err)
			}
		})
	}
}
