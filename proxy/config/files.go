package config

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"

	"github.com/dragoman-proxy/dragoman/adapterrt/plaintext"
)

// maxSmall is the largest size of a file with a secret, a certificate or the configuration.
const maxSmall = 1 << 20

// ReadSmall returns the content of a file that holds a secret, a certificate or the configuration. A file of more than 1 MiB is
// an error. A byte order mark is left out.
func ReadSmall(file string) ([]byte, error) {
	return plaintext.Read(file, maxSmall)
}

// KeyPair returns the certificate and its key in two PEM files.
func KeyPair(cert, key string) (tls.Certificate, error) {
	first, err := ReadSmall(cert)
	if err != nil {
		return tls.Certificate{}, err
	}
	second, err := ReadSmall(key)
	if err != nil {
		return tls.Certificate{}, err
	}
	return tls.X509KeyPair(first, second)
}

// Certificates returns the certificates in a PEM file.
func Certificates(file string) (*x509.CertPool, error) {
	return withCertificates(x509.NewCertPool(), file)
}

// withCertificates returns pool with the certificates in a PEM file.
func withCertificates(pool *x509.CertPool, file string) (*x509.CertPool, error) {
	text, err := ReadSmall(file)
	if err != nil {
		return nil, err
	}
	if !pool.AppendCertsFromPEM(text) {
		return nil, fmt.Errorf("no certificate in %s", file)
	}
	return pool, nil
}
