package oauth

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/dragoman-proxy/dragoman/proxy/auth/oauth/oauthtest"
	"github.com/dragoman-proxy/dragoman/proxy/tests/peertest"
)

// keyFile writes a new private key to a file. kind is EC, RSA, or PKCS1.
func keyFile(t *testing.T, kind string) (path string, public crypto.PublicKey) {
	t.Helper()
	var private crypto.Signer
	var err error
	if kind == "EC" {
		private, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	} else {
		private, err = rsa.GenerateKey(rand.Reader, minRSA)
	}
	if err != nil {
		t.Fatal(err)
	}
	block := &pem.Block{Type: "RSA PRIVATE KEY"}
	if kind == "PKCS1" {
		block.Bytes = x509.MarshalPKCS1PrivateKey(private.(*rsa.PrivateKey))
	} else {
		block.Type = "PRIVATE KEY"
		block.Bytes, err = x509.MarshalPKCS8PrivateKey(private)
	}
	if err != nil {
		t.Fatal(err)
	}
	return writePEM(t, block), private.Public()
}

func writePEM(t *testing.T, block *pem.Block) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "key.pem")
	if err := os.WriteFile(path, pem.EncodeToMemory(block), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// readKey reads a key that ReadKey accepts.
func readKey(t *testing.T, path string) *Key {
	t.Helper()
	k, err := ReadKey(path)
	if err != nil {
		t.Fatal(err)
	}
	return k
}

// watched returns a log at debug level, which must hold no assertion, token or key when the test ends.
func watched(t *testing.T) *zap.Logger {
	var told bytes.Buffer
	t.Cleanup(func() {
		for _, secret := range []string{"eyJ", "canary-", "PRIVATE"} {
			if strings.Contains(told.String(), secret) {
				t.Errorf("the log holds %s…: %s", secret, &told)
			}
		}
	})
	return zap.New(zapcore.NewCore(zapcore.NewJSONEncoder(zap.NewProductionEncoderConfig()), zapcore.AddSync(&told), zapcore.DebugLevel))
}

// TestClientKey: a client authenticates with a key in each request for a token and in the revocation, with a new
// assertion each time.
func TestClientKey(t *testing.T) {
	for name, c := range map[string]struct {
		kind, kid string
		forToken  bool
	}{"EC": {kind: "EC", kid: "first"}, "RSA": {kind: "RSA"}, "RSA in PKCS 1, for the token endpoint": {"PKCS1", "second", true}} {
		t.Run(name, func(t *testing.T) {
			path, public := keyFile(t, c.kind)
			key := readKey(t, path)
			key.ID, key.ForTokenEndpoint = c.kid, c.forToken
			s := oauthtest.New(t, oauthtest.Options{NoDCR: true, Keys: map[string]crypto.PublicKey{"known": public}, KeyForToken: c.forToken})
			log := watched(t)

			service, err := NewClientCredentials(Config{Server: s.URL, ClientID: "known", Key: key}, log)
			if err != nil {
				t.Fatal(err)
			}
			defer service.Close()
			for range 2 {
				if status, err := request(t, service, s, "echo"); status != http.StatusOK {
					t.Fatal(status, err)
				}
				s.RevokeAccess()
			}

			a := logged(t, s, t.TempDir(), func(cfg *Config) { cfg.ClientID, cfg.Key = "known", key }, log)
			if err := a.SignIn(t.Context(), agreeing{s}); err != nil {
				t.Fatal(err)
			}
			s.RevokeAccess()
			if status, err := call(t, a, s); status != http.StatusOK {
				t.Fatal(status, err)
			}
			if _, revoked, err := a.Logout(t.Context()); !revoked || err != nil {
				t.Error(revoked, err)
			}
			forms := s.TokenForms()
			if len(forms) != 4 { // twice as a service, a code, a refresh
				t.Error(len(forms), "requests for tokens")
			}
			for _, f := range forms {
				parsed, _, err := jwt.NewParser().ParseUnverified(f.Get("client_assertion"), jwt.MapClaims{})
				if err != nil {
					t.Fatal(err, f)
				}
				if kid, _ := parsed.Header["kid"].(string); kid != c.kid || f.Has("client_secret") || f.Get("resource") != s.URL {
					t.Error(parsed.Header, f)
				}
			}
		})
	}
}

// TestClientKeyOfADocument: the key belongs to a client ID metadata document.
func TestClientKeyOfADocument(t *testing.T) {
	const document = "https://client.example/metadata.json"
	path, public := keyFile(t, "EC")
	s := oauthtest.New(t, oauthtest.Options{NoDCR: true, CIMD: true, Keys: map[string]crypto.PublicKey{document: public}})
	a := accountOf(t, s, "", func(cfg *Config) { cfg.ClientMetadataURL, cfg.Key = document, readKey(t, path) })
	if err := a.SignIn(t.Context(), agreeing{s}); err != nil {
		t.Fatal(err)
	}
	s.RevokeAccess()
	if status, err := call(t, a, s); status != http.StatusOK {
		t.Error(status, err)
	}
}

// TestSignInAtServersThatCompress: metadata, registrations and tokens are read although nothing has asked for compression.
func TestSignInAtServersThatCompress(t *testing.T) {
	for _, p := range peertest.Packings {
		t.Run(p.Name, func(t *testing.T) {
			s := oauthtest.New(t, oauthtest.Options{Packed: p.Packed})
			a := accountOf(t, s, "", func(*Config) {})
			if err := a.SignIn(t.Context(), agreeing{s}); err != nil {
				t.Fatal(err)
			}
			s.RevokeAccess()
			if status, err := call(t, a, s); status != http.StatusOK {
				t.Error(status, err)
			}
		})
	}
}

// TestClientKeyFails: what people are told, without a storm of requests.
func TestClientKeyFails(t *testing.T) {
	path, public := keyFile(t, "EC")
	other, _ := keyFile(t, "EC")
	for name, c := range map[string]struct {
		o    oauthtest.Options
		path string
		want string
	}{
		"another key":      {path: other, want: `AS ASHOST: refused: invalid_client "token signature is invalid: crypto/ecdsa: verification error"`},
		"another audience": {path: path, o: oauthtest.Options{KeyForToken: true}, want: `AS ASHOST: refused: invalid_client "token has invalid claims: token has invalid audience"`},
		"clock": {path: path, o: oauthtest.Options{Now: func() time.Time { return time.Now().Add(10 * time.Minute) }},
			want: `AS ASHOST: refused: invalid_client "token has invalid claims: token is expired"`},
	} {
		t.Run(name, func(t *testing.T) {
			c.o.Keys = map[string]crypto.PublicKey{"service": public}
			s := oauthtest.New(t, c.o)
			k, err := NewClientCredentials(Config{Server: s.URL, ClientID: "service", Key: readKey(t, c.path)}, watched(t))
			if err != nil {
				t.Fatal(err)
			}
			defer k.Close()
			for range 3 {
				if _, err := request(t, k, s, "echo"); err == nil || err.Error() != addressed(s, c.want) {
					t.Errorf("got  %v\nwant %s", err, addressed(s, c.want))
				}
			}
			if n := len(s.TokenForms()); n != 1 {
				t.Error(n, "requests for tokens")
			}
		})
	}
}

// TestRefreshWithWhatIsConfigured: a sign-in outlives its secret, which a key replaces, and waits for the key if a process
// was not given it.
func TestRefreshWithWhatIsConfigured(t *testing.T) {
	path, public := keyFile(t, "RSA")
	s, dir := oauthtest.New(t, oauthtest.Options{Clients: map[string]string{"known": "canary-old"}}), t.TempDir()
	before := accountOf(t, s, dir, func(cfg *Config) { cfg.ClientID, cfg.ClientSecret = "known", "canary-old" })
	if err := before.SignIn(t.Context(), agreeing{s}); err != nil {
		t.Fatal(err)
	}
	s.Change(func(o *oauthtest.Options) { o.Clients, o.Keys = nil, map[string]crypto.PublicKey{"known": public} })
	with := func(k *Key) *Account {
		return accountOf(t, s, dir, func(cfg *Config) { cfg.ClientID, cfg.Key = "known", k })
	}
	for range 2 {
		s.RevokeAccess()
		if status, err := call(t, with(readKey(t, path)), s); status != http.StatusOK {
			t.Error(status, err)
		}
	}
	s.RevokeAccess()
	n := len(s.TokenForms())
	want := addressed(s, "AS ASHOST: the client has a private key: --oauth key_file=FILE names it; the token is kept")
	if _, err := call(t, with(nil), s); err == nil || err.Error() != want {
		t.Errorf("got  %v\nwant %s", err, want)
	}
	if len(s.TokenForms()) != n {
		t.Error("a request without a proof was sent")
	}
	if status, err := call(t, with(readKey(t, path)), s); status != http.StatusOK {
		t.Error(status, err)
	}
	known, revoked, err := with(nil).Logout(t.Context())
	if want := addressed(s, "AS ASHOST: the client has a private key: --oauth key_file=FILE names it"); !known || revoked || err == nil || err.Error() != want {
		t.Errorf("%v %v %v", known, revoked, err)
	}
	if value, err := with(readKey(t, path)).Header(t.Context()); value != "" || err != nil {
		t.Error("the tokens are still there", err)
	}
}

// TestReadKey: files that hold no key for ES256 or RS256, none of which is repeated in the error.
func TestReadKey(t *testing.T) {
	pkcs8 := func(key any) *pem.Block {
		der, err := x509.MarshalPKCS8PrivateKey(key)
		if err != nil {
			t.Fatal(err)
		}
		return &pem.Block{Type: "PRIVATE KEY", Bytes: der}
	}
	curve, _ := ecdsa.GenerateKey(elliptic.P384(), rand.Reader)
	_, ed, _ := ed25519.GenerateKey(rand.Reader)
	plain := filepath.Join(t.TempDir(), "plain")
	if err := os.WriteFile(plain, []byte("canary-text"), 0o600); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{
		filepath.Join(t.TempDir(), "none"): "no such file",
		plain:                              "holds no PEM block",
		writePEM(t, &pem.Block{Type: "ENCRYPTED PRIVATE KEY", Bytes: []byte("canary-bytes")}): "holds no private key that can be used",
		writePEM(t, &pem.Block{Type: "CERTIFICATE", Bytes: []byte("canary-bytes")}):           "holds no private key that can be used",
		writePEM(t, pkcs8(ed)):    "holds no private key that can be used",
		writePEM(t, pkcs8(curve)): "must be on the curve P-256",
	} {
		if _, err := ReadKey(path); err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), path) || strings.Contains(err.Error(), "canary") {
			t.Errorf("%v; want %s", err, want)
		}
	}
}
