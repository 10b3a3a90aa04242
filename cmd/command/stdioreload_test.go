package command

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"io"
	"log"
	"math/big"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tidwall/gjson"

	"github.com/dragoman-proxy/dragoman/proxy/auth/oauth/oauthtest"
	"github.com/dragoman-proxy/dragoman/proxy/tests/peertest"
)

// A keeper is a server over TLS that records what it gets. It speaks a revision with a handshake.
type keeper struct {
	*httptest.Server
	authorization atomic.Value // string: of the last request
	client        atomic.Value // string: the first bytes of the certificate of the last request; "" for none
}

func newKeeper(t *testing.T) *keeper {
	k := new(keeper)
	k.Server = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		k.authorization.Store(r.Header.Get("Authorization"))
		shown := ""
		if len(r.TLS.PeerCertificates) > 0 {
			shown = fmt.Sprintf("%x", r.TLS.PeerCertificates[0].Signature)
		}
		k.client.Store(shown)
		text, _ := io.ReadAll(r.Body)
		message := gjson.ParseBytes(text)
		w.Header().Set("Content-Type", "application/json")
		switch {
		case r.Method != http.MethodPost:
			w.WriteHeader(http.StatusMethodNotAllowed)
		case message.Get("method").Str == "initialize":
			fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":{"protocolVersion":"2025-06-18","capabilities":{"tools":{}},"serverInfo":{"name":"s","version":"1"}}}`, message.Get("id").Raw)
		case message.Get("method").Str == "tools/list":
			fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":{"tools":[]}}`, message.Get("id").Raw)
		case message.Get("id").Exists():
			fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"error":{"code":-32601,"message":"no"}}`, message.Get("id").Raw)
		default:
			w.WriteHeader(http.StatusAccepted)
		}
	}))
	k.Config.ErrorLog = log.New(io.Discard, "", 0)
	k.TLS = &tls.Config{ClientAuth: tls.RequestClientCert}
	k.StartTLS()
	t.Cleanup(k.Close)
	return k
}

// text returns a certificate as files have it.
func text(c *x509.Certificate) string {
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: c.Raw}))
}

// selfSigned returns a new certificate and its key, as files have them.
func selfSigned(t *testing.T) (cert, key string) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	is := &x509.Certificate{SerialNumber: big.NewInt(1), NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true}
	der, err := x509.CreateCertificate(rand.Reader, is, is, &private.PublicKey, private)
	if err != nil {
		t.Fatal(err)
	}
	secret, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})), string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: secret}))
}

// TestStdioReadsItsFilesAgain checks that a process on stdio uses rotated certificates, and a changed secret in its configuration,
// also in the session that had begun before.
func TestStdioReadsItsFilesAgain(t *testing.T) {
	t.Parallel()
	server := newKeeper(t)
	dir := t.TempDir()
	file, ca := filepath.Join(dir, "c.yaml"), filepath.Join(mkdir(t, filepath.Join(dir, "ca")), "ca.pem")
	cert, key := filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	configure := func(secret string) {
		t.Helper()
		replace(t, file, fmt.Sprintf("upstream: {url: %s, ca_file: %s, client_cert: %s, client_key: %s, headers: {Authorization: Bearer %s}}", server.URL, ca, cert, key, secret))
	}
	rotate := func() {
		t.Helper()
		first, second := selfSigned(t)
		replace(t, key, second)
		replace(t, cert, first)
	}
	rotate()
	wrong, _ := selfSigned(t)
	replace(t, ca, wrong)
	configure("one")
	p := startProcess(t, nil, "stdio", "--config", file)
	if got := p.asks(t, "initialize"); !got.Get("error").Exists() {
		t.Fatalf("it trusts the server: %s", got.Raw)
	}
	replace(t, ca, text(server.Certificate()))
	peertest.Eventually(t, "the server is trusted", func() bool { return p.asks(t, "initialize").Get("result").Exists() })
	fmt.Fprintln(p.in, `{"jsonrpc":"2.0","method":"notifications/initialized"}`)
	list := func() {
		t.Helper()
		if got := p.asks(t, "tools/list"); !got.Get("result").Exists() {
			t.Fatal(got.Raw)
		}
	}
	list()
	before := server.client.Load().(string)
	if before == "" || server.authorization.Load() != "Bearer one" {
		t.Fatalf("certificate %q, %s", before, server.authorization.Load())
	}
	rotate()
	peertest.Eventually(t, "the new certificate is shown", func() bool {
		list()
		shown := server.client.Load().(string)
		return shown != "" && shown != before
	})
	configure("two")
	peertest.Eventually(t, "the new secret is sent", func() bool {
		list()
		return server.authorization.Load() == "Bearer two"
	})
	p.in.Close()
	p.endsInOrder(t)
	if strings.Contains(p.log.String(), "Bearer one") {
		t.Error("the log has the secret")
	}
}

// TestStdioReadsASecretAgain checks that a client secret is used that was put right while the process runs.
func TestStdioReadsASecretAgain(t *testing.T) {
	t.Parallel()
	server := oauthtest.New(t, oauthtest.Options{Clients: map[string]string{"service": "r1ght-secret"}})
	dir := t.TempDir()
	file, secret := filepath.Join(dir, "c.yaml"), filepath.Join(mkdir(t, filepath.Join(dir, "secrets")), "secret")
	write(t, secret, "wr0ng-secret")
	write(t, file, fmt.Sprintf("upstream: {url: %q, auth: {type: client_credentials, client_id: service, client_secret_file: %s}}", server.URL, secret))
	p := startProcess(t, nil, "stdio", "--config", file)
	if got := p.asks(t, "initialize"); !got.Get("error").Exists() {
		t.Fatalf("with the wrong secret: %s", got.Raw)
	}
	replace(t, secret, "r1ght-secret\n")
	peertest.Eventually(t, "the right secret is used", func() bool { return p.asks(t, "initialize").Get("result").Exists() })
	if log := p.log.String(); strings.Contains(log, "r1ght") || strings.Contains(log, "wr0ng") {
		t.Errorf("the log has a secret:\n%s", log)
	}
}
