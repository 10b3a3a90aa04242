package origin

import (
	"crypto/x509"
	"encoding/pem"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"

	"github.com/dragoman-proxy/dragoman/proxy/config"
)

// TestSignInAlwaysVerifies: with the authorities of NODE_EXTRA_CA_CERTS beside the system's, also where the server itself is not verified.
func TestSignInAlwaysVerifies(t *testing.T) {
	t.Parallel()
	server := httptest.NewTLSServer(nil)
	t.Cleanup(server.Close)
	u := config.Default().Upstream
	file := filepath.Join(t.TempDir(), "extra.pem")
	if err := os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}), 0o600); err != nil {
		t.Fatal(err)
	}
	u.URL, u.Verify, u.Extra = server.URL, config.VerifyNone, config.ReadExtraCAs(file)
	c, err := oauthConfig(u)
	if err != nil {
		t.Fatal(err)
	}
	want, err := x509.SystemCertPool()
	if err != nil {
		want = x509.NewCertPool()
	}
	want.AddCert(server.Certificate())
	if c.TLS.InsecureSkipVerify || !c.TLS.RootCAs.Equal(want) {
		t.Errorf("%+v", c.TLS)
	}
	cfg := config.Default()
	cfg.Upstream = u
	if BorrowLogin(&cfg) {
		t.Error("a stored login is lent to a server that is not verified")
	}
}
