package config

import (
	"crypto/x509"
	"net/netip"
	"net/url"
	"slices"
	"strings"

	"github.com/dragoman-proxy/dragoman/dial"
	"github.com/dragoman-proxy/dragoman/proxy/config/setting"
)

// The values of upstream.verify.
const (
	VerifyFull = "full"
	VerifyNone = "none"
)

// ExtraCAsVariable is the variable of Node.js that names a file of authorities to trust beside the system's.
const ExtraCAsVariable = "NODE_EXTRA_CA_CERTS"

// ExtraCAs are authorities that are trusted beside the system's. They are read once, as that takes milliseconds.
type ExtraCAs struct {
	File string         // "" for none
	All  *x509.CertPool // with the system's; nil for none, or after an error
	Err  error          // why File cannot be used
}

// ReadExtraCAs reads a file of authorities; "" for none.
func ReadExtraCAs(file string) ExtraCAs {
	if file == "" {
		return ExtraCAs{}
	}
	all, err := x509.SystemCertPool()
	if err != nil {
		all = x509.NewCertPool() // a machine without authorities
	}
	all, err = withCertificates(all, file)
	return ExtraCAs{file, all, err}
}

// Unverified reports whether any certificate of the server is accepted.
func (u *Upstream) Unverified() bool { return u.Verify == VerifyNone && u.scheme() == "https" }

func (u *Upstream) scheme() string {
	scheme, _, _ := strings.Cut(u.URL, "://")
	return strings.ToLower(scheme)
}

func (u *Upstream) validateVerify(all *setting.Mistakes) {
	if u.Unverified() && u.Auth.Lends() {
		do := "leave out upstream.auth"
		if u.Auth.Type == AuthLogin {
			do = "add --login never (upstream.auth.type: none)"
		}
		all.Addf("upstream.verify", "none cannot be used with upstream.auth.type: %s, as any machine on the way could take the token; %s, or trust the server's certificate: --ca FILE", u.Auth.Type, do)
	}
}

// InTheClear reports whether dragoman sends a credential over http to a host that is neither this machine nor in a private network,
// as far as its name tells.
func (u *Upstream) InTheClear() bool {
	sends := u.SetsAuthorization() || u.Auth.Lends() && (u.Auth.AllowHTTP || u.Auth.Type == AuthTokenFile)
	at, err := url.Parse(u.URL)
	return err == nil && sends && u.scheme() == "http" && !isPrivate(at.Hostname())
}

// Said returns the remarks, also those on trust.
func (c *Config) Said() []Remark { return append(slices.Clip(c.Remarks), c.Upstream.remarks()...) }

// remarks are on a server that is trusted beyond what the system trusts, or gets a credential that others on the way can read.
func (u *Upstream) remarks() (all []Remark) {
	if e := &u.Extra; e.Err != nil {
		all = append(all, Remark{ExtraCAsVariable + " cannot be used, and only the system's authorities are trusted: " + e.Err.Error(), e.File, "correct the file and restart, or name another with --ca FILE (upstream.ca_file)"})
	} else if e.File != "" {
		all = append(all, Remark{"the authorities of " + ExtraCAsVariable + " are trusted, beside the system's", e.File, ""})
	}
	if u.Unverified() {
		all = append(all, Remark{"the server's certificate is not verified: any machine on the way can pose as the server", "upstream.verify", "trust its certificate with --ca FILE (upstream.ca_file) instead"})
	}
	if u.InTheClear() {
		all = append(all, Remark{"the server's token is sent over http: any machine on the way can read it", "upstream.url", "use https://, if the server has it"})
	}
	return all
}

// privateNames end the names of hosts of private networks.
var privateNames = []string{".localhost", ".local", ".internal", ".lan", ".home.arpa", ".svc"}

func isPrivate(host string) bool {
	if a, err := netip.ParseAddr(host); err == nil {
		return dial.ZoneOf(a) != dial.Public
	}
	host = strings.TrimSuffix(strings.ToLower(host), ".")
	return !strings.Contains(host, ".") || slices.ContainsFunc(privateNames, func(end string) bool { return strings.HasSuffix(host, end) })
}
