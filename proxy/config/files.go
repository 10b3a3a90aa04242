package config

import (
	"crypto/x509"
	"fmt"
	"io"
	"os"
)

// maxSmall is the largest size of a file with a secret, a certificate or the configuration.
const maxSmall = 1 << 20

// ReadSmall returns the content of a file that holds a secret, a certificate or the configuration. A file of more than 1 MiB is
// an error.
func ReadSmall(file string) ([]byte, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxSmall+1))
	if err == nil && len(text) > maxSmall {
		err = fmt.Errorf("%s is larger than %d bytes", file, maxSmall)
	}
	return text, err
}

// Certificates returns the certificates in a PEM file.
func Certificates(file string) (*x509.CertPool, error) {
	text, err := ReadSmall(file)
	if err != nil {
		return nil, err
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(text) {
		return nil, fmt.Errorf("no certificate in %s", file)
	}
	return pool, nil
}
