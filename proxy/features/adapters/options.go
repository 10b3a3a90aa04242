package adapters

import (
	"crypto/x509"
	"fmt"
	"net/http"

	"github.com/dragoman-proxy/dragoman/adapterrt"
	"github.com/dragoman-proxy/dragoman/proxy/config"
	"github.com/dragoman-proxy/dragoman/proxy/protocol/mcp"
)

// Options converts a to the options of the adapter runtime, with the files that a names. Environment variables of the
// adapter protocol take precedence over a. getenv looks up these variables and the credentials.
func Options(a *config.Adapters, getenv func(string) (string, bool)) (adapterrt.Options, error) {
	o, err := a.Options()
	if err != nil {
		return o, err
	}
	o.Getenv, o.UserAgent = getenv, mcp.UserAgent()
	if a.Network.WebProxy {
		o.Proxy = http.ProxyFromEnvironment
	}
	if o.RootCAs, err = rootsOf(a); err != nil {
		return o, err
	}
	return o, o.LoadEnv(getenv)
}

// rootsOf returns the certificates in adapters.network.ca_file; nil for the system's.
func rootsOf(a *config.Adapters) (*x509.CertPool, error) {
	if a.Network.CAFile == "" {
		return nil, nil
	}
	roots, err := config.Certificates(a.Network.CAFile)
	if err != nil {
		return nil, fmt.Errorf("adapters.network.ca_file: %w", err)
	}
	return roots, nil
}
