package adapterrt

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"io"
	"log"
	"net/http"
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

// TestByteOrderMarksInCredentials checks that a secret, a certificate and its key may be in files that an editor of Windows has written.
func TestByteOrderMarksInCredentials(t *testing.T) {
	dir := t.TempDir()
	cert, key, c := pemFiles(t, dir)
	for _, file := range []string{cert, key} {
		text, err := os.ReadFile(file)
		if err == nil {
			err = os.WriteFile(file, append([]byte("\ufeff"), text...), 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintf(w, `"%s, %d certificate"`, r.Header.Get("Authorization"), len(r.TLS.PeerCertificates))
	}))
	s.TLS = &tls.Config{ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: x509.NewCertPool()}
	s.TLS.ClientCAs.AddCert(c)
	s.StartTLS()
	t.Cleanup(s.Close)
	ca, token := filepath.Join(dir, "ca.pem"), filepath.Join(dir, "token")
	for file, text := range map[string]string{ca: string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw})), token: "t0ken\r\n"} {
		if err := os.WriteFile(file, []byte("\ufeff"+text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	rt := one(t, fromEnv("T", "x"), s.URL, status, "auth: {type: bearer, token_file: "+token+", mtls: {cert_file: "+cert+", key_file: "+key+", ca_file: "+ca+"}}")
	if got := ask(rt, Endpoint{}, `{"operation":"get_status"}`); got != `{"success":true,"data":"Bearer t0ken, 1 certificate"}` {
		t.Error(got)
	}
}
