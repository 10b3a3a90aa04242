package origin

import (
	"crypto/tls"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"
)

func TestCertificateOfTheServerIsNoted(t *testing.T) {
	server := httptest.NewTLSServer(nil)
	defer server.Close()
	w := new(Certificates)
	c := w.watch(nil)
	if !w.Server().IsZero() || !w.Client().IsZero() || c.MinVersion != tls.VersionTLS12 {
		t.Errorf("before: %v %v", w.Server(), w.Client())
	}
	c.RootCAs = server.Client().Transport.(*http.Transport).TLSClientConfig.RootCAs
	conn, err := tls.Dial("tcp", server.Listener.Addr().String(), c)
	if err != nil {
		t.Fatal(err)
	}
	conn.Close()
	if end := w.Server(); !end.Equal(server.Certificate().NotAfter) {
		t.Errorf("%v, want %v", end, server.Certificate().NotAfter)
	}
	if none := (*Certificates)(nil); !none.Server().IsZero() || !none.Client().IsZero() {
		t.Error("a server on a pipe has a certificate")
	}
}

func TestOwnCertificateIsNoted(t *testing.T) {
	server := httptest.NewTLSServer(nil)
	defer server.Close()
	own := server.TLS.Certificates[0]
	own.Leaf = server.Certificate()
	w := new(Certificates)
	w.watch(&tls.Config{Certificates: []tls.Certificate{own}})
	if end := w.Client(); end.Before(time.Unix(1, 0)) || !end.Equal(server.Certificate().NotAfter) {
		t.Errorf("%v", end)
	}
}
