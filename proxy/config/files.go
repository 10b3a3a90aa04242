package config

import (
	"crypto/x509"
	"fmt"
	"io"
	"os"
	"reflect"
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

// Files returns the files that c names and that are read when c is taken into use: those of the settings whose field has the tag
// file:"reload". The files of settings with file:"use" are read again each time that they are needed.
func (c *Config) Files() (files []string) {
	_ = fieldsOf(reflect.ValueOf(c).Elem(), "", func(_ string, field reflect.StructField, v reflect.Value) error {
		if field.Tag.Get("file") == "reload" && v.String() != "" {
			files = append(files, v.String())
		}
		return nil
	})
	return files
}
