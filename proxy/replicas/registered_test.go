package replicas

import (
	"crypto/tls"
	"crypto/x509"
	"testing"

	"go.uber.org/zap"

	"github.com/dragoman-proxy/dragoman/proxy/replicas/sealed"
	"github.com/dragoman-proxy/dragoman/proxy/store"
)

// TestAnotherCertificateIsThatOfTheReplica only if it is the one that the replica tells in the store by then.
func TestAnotherCertificateIsThatOfTheReplica(t *testing.T) {
	s := store.New(store.NewMemory(store.Bounds{}), store.Options{})
	defer s.Close()
	now := Settings{Certificate: &tls.Certificate{Certificate: [][]byte{[]byte("first")}}}
	r := New(Options{Self: sealed.ID{2}, Settings: func() Settings { return now }, Store: s, Log: zap.NewNop()})
	defer r.Close()
	r.Register("10.0.0.2:1")
	by := New(Options{Self: sealed.ID{1}, Settings: func() Settings { return Settings{} }, Store: s, Log: zap.NewNop()})
	defer by.Close()
	at, err := by.find(sealed.ID{2})
	if err != nil || at.at != "10.0.0.2:1" {
		t.Fatalf("%+v %v", at, err)
	}
	verify := at.tls(by.isCertificate).VerifyConnection
	accepts := func(cert string) bool {
		return verify(tls.ConnectionState{PeerCertificates: []*x509.Certificate{{Raw: []byte(cert)}}}) == nil
	}
	if !accepts("first") || accepts("second") {
		t.Error("at first")
	}
	now.Certificate = &tls.Certificate{Certificate: [][]byte{[]byte("second")}}
	r.renew(t.Context(), r.member("10.0.0.2:1"), true)
	if !accepts("first") || !accepts("second") || accepts("third") { // the listener may not show the new one yet
		t.Error("with another certificate")
	}
	if at.tls(noOther).VerifyConnection(tls.ConnectionState{PeerCertificates: []*x509.Certificate{{Raw: []byte("second")}}}) == nil {
		t.Error("nothing but what it has told")
	}
}
