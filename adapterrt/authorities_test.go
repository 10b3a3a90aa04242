package adapterrt

import (
	"crypto/x509"
	"encoding/pem"
	"io"
	"log"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestRotatedAuthorities checks that an API is called with the trusted certificates of now: those of the operator, or those in the
// adapter's ca_file, of which an invalid one changes nothing.
func TestRotatedAuthorities(t *testing.T) {
	s := httptest.NewUnstartedServer(say(200, "", "1"))
	s.Config.ErrorLog = log.New(io.Discard, "", 0)
	s.StartTLS()
	t.Cleanup(s.Close)
	dir := t.TempDir()
	cert, key, other := pemFiles(t, dir)
	of := func(c *x509.Certificate) *x509.CertPool {
		pool := x509.NewCertPool()
		pool.AddCert(c)
		return pool
	}
	ca := filepath.Join(dir, "ca.pem")
	put := func(text []byte) {
		t.Helper()
		if err := os.WriteFile(ca, text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	text := func(c *x509.Certificate) []byte {
		return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: c.Raw})
	}
	check := func(what string, rt *Runtime, trusts bool) {
		t.Helper()
		s.CloseClientConnections()
		if got := ask(rt, Endpoint{}, `{"operation":"get_status"}`); trusts != strings.Contains(got, `"success":true`) || !trusts && !strings.Contains(got, "unknown authority") {
			t.Errorf("%s: %s", what, got)
		}
	}

	rt := one(t, Options{RootCAs: of(other)}, s.URL, status)
	check("the operator's, before", rt, false)
	if err := rt.Trust(of(s.Certificate())); err != nil {
		t.Fatal(err)
	}
	check("the operator's, rotated", rt, true)
	if err := rt.Trust(of(other)); err != nil {
		t.Fatal(err)
	}
	check("the operator's, revoked", rt, false)

	put(text(other))
	rt = one(t, fromEnv("T", "x"), s.URL, status, "auth: {type: mtls, cert_file: "+cert+", key_file: "+key+", ca_file: "+ca+"}")
	if got := rt.Authorities(); !slices.Equal(got, []string{ca}) {
		t.Errorf("the files are %q", got)
	}
	check("the adapter's, before", rt, false)
	put(text(s.Certificate()))
	if err := rt.Trust(nil); err != nil {
		t.Fatal(err)
	}
	check("the adapter's, rotated", rt, true)
	put([]byte("half of a cert"))
	if err := rt.Trust(nil); err == nil || !strings.Contains(err.Error(), "ca_file") {
		t.Errorf("an invalid file: %v", err)
	}
	check("the adapter's, invalid", rt, true)
}
