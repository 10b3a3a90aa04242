package adapters

import (
	"crypto/x509"
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"github.com/dragoman-proxy/dragoman/adapterrt"
	"github.com/dragoman-proxy/dragoman/proxy/config"
	"github.com/dragoman-proxy/dragoman/proxy/mcp"
)

// Options converts a to the options of the adapter runtime. Environment variables of the
// adapter protocol take precedence over a. getenv looks up these variables and the credentials.
func Options(a *config.Adapters, getenv func(string) (string, bool)) (adapterrt.Options, error) {
	shown, err := a.Shown()
	if err != nil {
		return adapterrt.Options{}, err
	}
	form, err := adapterrt.ParseIntrospection(a.Introspection)
	if err != nil {
		return adapterrt.Options{}, fmt.Errorf("adapters.introspection: %w", err)
	}
	o := adapterrt.Options{
		Shown: shown, Callers: a.CallerRules(), PerAdapter: a.Tools == "per_adapter", ToolPrefix: a.Prefix,
		HTTPPrefix:    a.HTTPPrefix,
		SkipInvalid:   a.SkipInvalid,
		InsecureHosts: a.Network.InsecureHosts, PublicOnly: a.Network.PublicOnly, SameOriginRedirects: a.Network.Redirects,
		TrustOverrides: a.Trust.Overrides, MaxSelfDeclared: a.Trust.MaxSelfDeclared,
		ConfirmDestructive: a.Confirm.Destructive,
		DevErrors:          a.Errors.Dev, KeepAddresses: a.Errors.Addresses == "keep", NoErrorBody: !a.Errors.Body, Introspection: form,
		MaxResponseBytes: int(a.MaxResponse),
		TokenCommands:    a.TokenCommands,
		Getenv:           getenv, UserAgent: "dragoman/" + strings.Trim(mcp.Version(), "()"), // a token in User-Agent must not contain parentheses
	}
	switch a.Confirm.Via {
	case "token":
		o.ConfirmVia = adapterrt.ConfirmToken
	case "elicitation":
		o.ConfirmVia = adapterrt.ConfirmUser
	}
	switch a.Trust.Enforce {
	case "strict":
		o.TrustEnforcement = adapterrt.TrustStrict
	case "off":
		o.TrustEnforcement = adapterrt.TrustOff
	}
	if a.Network.WebProxy {
		o.Proxy = webProxyOf
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

// webProxyOf returns the HTTP proxy that the environment names for a request, as
// [http.ProxyFromEnvironment] does.
func webProxyOf(r *http.Request) (*url.URL, error) { return http.ProxyFromEnvironment(r) }
