package credential

import (
	"crypto/tls"
	"crypto/x509"

	"github.com/dragoman-proxy/dragoman/adapterrt/file"
)

// PresentCertificate makes t present the client certificate of m, and trust the certificates
// of m's ca_file if there is one, or none if it returns an error. The client certificate is read
// for each connection, so that a renewed one is used.
func PresentCertificate(m *file.Mutual, t *tls.Config) error {
	t.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
		c, err := m.Pair()
		return &c, err
	}
	pool, err := m.Roots()
	if err != nil {
		t.RootCAs = x509.NewCertPool() // an empty pool trusts no certificate; nil would trust the system's
		return err
	}
	if pool != nil {
		t.RootCAs = pool
	}
	return nil
}
