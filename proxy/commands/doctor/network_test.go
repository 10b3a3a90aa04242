package doctor

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/dragoman-proxy/dragoman/proxy/config"
	"github.com/dragoman-proxy/dragoman/proxy/tests/peertest"
)

// authority signs certificates for tests.
type authority struct {
	t    *testing.T
	key  *ecdsa.PrivateKey
	cert *x509.Certificate
	file string // PEM
}

func newAuthority(t *testing.T) *authority {
	a := &authority{t: t, file: filepath.Join(t.TempDir(), "ca.pem")}
	var err error
	if a.key, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader); err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "Test CA"}, NotBefore: time.Now().AddDate(-1, 0, 0), NotAfter: time.Now().AddDate(5, 0, 0),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, a.key.Public(), a.key)
	if err != nil {
		t.Fatal(err)
	}
	if a.cert, err = x509.ParseCertificate(der); err != nil {
		t.Fatal(err)
	}
	writePEM(t, a.file, "CERTIFICATE", der)
	return a
}

func writePEM(t *testing.T, file, kind string, der []byte) {
	t.Helper()
	if err := os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600); err != nil {
		t.Fatal(err)
	}
}

// issue returns a certificate for a name or an address, and the files that have it and its key.
func (a *authority) issue(name string, from, until time.Time) (pair tls.Certificate, certFile, keyFile string) {
	a.t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		a.t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: name}, NotBefore: from, NotAfter: until}
	if ip := net.ParseIP(name); ip != nil {
		template.IPAddresses = []net.IP{ip}
	} else {
		template.DNSNames = []string{name}
	}
	der, err := x509.CreateCertificate(rand.Reader, template, a.cert, key.Public(), a.key)
	if err != nil {
		a.t.Fatal(err)
	}
	private, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		a.t.Fatal(err)
	}
	dir := a.t.TempDir()
	certFile, keyFile = filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	writePEM(a.t, certFile, "CERTIFICATE", der)
	writePEM(a.t, keyFile, "EC PRIVATE KEY", private)
	if pair, err = tls.LoadX509KeyPair(certFile, keyFile); err != nil {
		a.t.Fatal(err)
	}
	return pair, certFile, keyFile
}

// TestWayToTheServer checks the lines about name, addresses and TLS.
func TestWayToTheServer(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("the texts of errors differ")
	}
	ca := newAuthority(t)
	now := time.Now()
	secure := func(name string, from, until time.Time) string {
		pair, _, _ := ca.issue(name, from, until)
		return serveTLS(t, pair)
	}
	day := func(at time.Time) string { return at.UTC().Format("2006-01-02") }
	year := now.AddDate(1, 0, 0)
	plain := serve(t, newFake(t))
	_, port, _ := net.SplitHostPort(plain)
	unknown := "https://" + secure("127.0.0.1", now.AddDate(0, -1, 0), year)
	for name, c := range map[string]struct {
		url, ca string
		want    []string
	}{
		"not verified": {unknown, "", []string{"ok HOST: connects"}},
		"plain":        {"http://" + plain, "", []string{"ok HOST: connects"}},
		"refused":      {"http://" + peertest.NoListener, "", []string{"FAIL HOST: connection refused → start the server, or correct its URL (upstream.url)"}},
		"unknown name": {"http://no-such-host.invalid:" + port, "",
			[]string{"FAIL HOST: the name no-such-host.invalid cannot be resolved: *"}},
		"trusted": {"https://" + secure("127.0.0.1", now.AddDate(0, -1, 0), year), ca.file,
			[]string{"ok HOST: connects", "ok HOST: TLS certificate for 127.0.0.1, valid until " + day(year), "ok HOST: TLS 1.3, certificate signed by CN=Test CA"}},
		"unknown authority": {unknown, "", []string{
			"ok HOST: connects", "ok HOST: TLS certificate for 127.0.0.1, valid until " + day(year),
			"FAIL HOST: the certificate is signed by CN=Test CA, which this machine does not trust; the server sent no intermediate certificate → name the file with the certificate of the authority that signed the server's: --ca FILE (upstream.ca_file)",
		}},
		"wrong name": {"https://" + secure("other.example", now.AddDate(0, -1, 0), year), ca.file, []string{
			"ok HOST: connects", "ok HOST: TLS certificate for other.example, valid until " + day(year),
			"FAIL HOST: the certificate is for other.example, not for 127.0.0.1 → use a name in the URL (upstream.url) that the certificate is for, or renew the certificate for this one",
		}},
		"ended": {"https://" + secure("127.0.0.1", now.AddDate(0, -2, 0), now.AddDate(0, 0, -3)), ca.file, []string{
			"ok HOST: connects",
			"FAIL HOST: TLS certificate for 127.0.0.1 ended on " + day(now.AddDate(0, 0, -3)) + " → renew the server's certificate, or correct the clock of this machine",
		}},
		"early": {"https://" + secure("127.0.0.1", now.AddDate(0, 0, 3), year), ca.file, []string{
			"ok HOST: connects",
			"FAIL HOST: TLS certificate for 127.0.0.1 is valid only from " + day(now.AddDate(0, 0, 3)) + " on; this machine's clock says " + day(now) + " → correct the clock of this machine, or wait",
		}},
		"ends soon": {"https://" + secure("127.0.0.1", now.AddDate(0, -2, 0), now.AddDate(0, 0, 3)), ca.file, []string{
			"ok HOST: connects",
			"warn HOST: TLS certificate for 127.0.0.1 ends on " + day(now.AddDate(0, 0, 3)) + " → renew the server's certificate, or correct the clock of this machine",
			"ok HOST: TLS 1.3, certificate signed by CN=Test CA",
		}},
		"plain HTTP": {"https://" + plain, "", []string{"ok HOST: connects", "FAIL HOST: the server answers in plain HTTP, not TLS → use http://HOST/mcp (upstream.url)"}},
	} {
		t.Run(name, func(t *testing.T) {
			got := examine(t, with(func(cfg *config.Config) {
				if cfg.Upstream.URL, cfg.Upstream.CAFile = c.url+"/mcp", c.ca; c.ca == "" && name == "not verified" {
					cfg.Upstream.Verify = config.VerifyNone
				}
			}), "network")
			_, host, _ := strings.Cut(c.url, "://")
			for i := range c.want {
				c.want[i] = strings.ReplaceAll(c.want[i], "HOST", host)
			}
			want(t, got, c.want...)
		})
	}
}

// TestOneAddressThatRefusesIsAWarning checks a name of which only one address answers.
func TestOneAddressThatRefusesIsAWarning(t *testing.T) {
	addrs, err := net.DefaultResolver.LookupHost(t.Context(), "localhost")
	if err != nil || len(addrs) < 2 {
		t.Skipf("localhost has not two addresses here: %v, %v", addrs, err)
	}
	addr := serve(t, newFake(t))
	_, port, _ := net.SplitHostPort(addr)
	got := examine(t, atURL("http://localhost:"+port+"/mcp"), "network")
	text := strings.Join(got, "\n")
	if !strings.Contains(text, "ok DNS: localhost is ") || !strings.Contains(text, "ok 127.0.0.1:"+port+": connects") ||
		!strings.Contains(text, "warn [::1]:"+port+": does not connect: connection refused → another address of localhost does; dragoman tries them one after the other") {
		t.Error(text)
	}
}

// TestListeners checks the lines about ports, exposure and the listener's certificate.
func TestListeners(t *testing.T) {
	ca := newAuthority(t)
	now := time.Now()
	busy, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer busy.Close()
	other, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	free := other.Addr().String()
	other.Close()
	holder := "another process"
	if runtime.GOOS == "linux" {
		name, err := os.ReadFile("/proc/self/comm")
		if err != nil {
			t.Fatal(err)
		}
		holder = fmt.Sprintf("%s (process %d)", strings.TrimSpace(string(name)), os.Getpid())
	}
	_, cert, key := ca.issue("proxy.example", now.AddDate(0, -1, 0), now.AddDate(0, 0, 5))
	_, another, _ := ca.issue("proxy.example", now.AddDate(0, -1, 0), now.AddDate(1, 0, 0))
	const do = ` → auth.tokens: ["${DRAGOMAN_TOKEN}"], or a loopback address in listen`
	for name, c := range map[string]struct {
		change func(*config.Config)
		want   []string
	}{
		"free": {func(*config.Config) {}, []string{"ok listen: 127.0.0.1:0 is free"}},
		"in use": {func(c *config.Config) { c.Listen = busy.Addr().String() },
			[]string{"FAIL listen: " + busy.Addr().String() + " is in use by " + holder + " → --listen 127.0.0.1:*"}},
		"admin in use": {func(c *config.Config) { c.Admin.Listen = busy.Addr().String() },
			[]string{"ok listen: 127.0.0.1:0 is free", "FAIL admin.listen: " + busy.Addr().String() + " is in use by " + holder + " → admin.listen: 127.0.0.1:*"}},
		"admin at listen": {func(c *config.Config) { c.Listen, c.Admin.Listen = free, free },
			[]string{"ok listen: " + free + " is free", "FAIL admin.listen: " + free + " is taken by listen, " + free + ", of the same configuration → admin.listen: 127.0.0.1:*"}},
		"admin at listen everywhere": {func(c *config.Config) {
			c.Listen, c.Admin.Listen = strings.TrimPrefix(free, "127.0.0.1"), strings.Replace(free, "127.0.0.1", "0.0.0.0", 1)
			c.Auth.TrustNetwork = true
		}, []string{"ok *", "FAIL admin.listen: *", "warn allowed_hosts: *"}},
		"foreign": {func(c *config.Config) { c.Listen = "192.0.2.1:8808" }, []string{"FAIL listen: cannot listen at 192.0.2.1:8808: *", "warn allowed_hosts: *", "warn auth.tokens: *"}},
		"exposed": {func(c *config.Config) { c.Listen = ":0" },
			[]string{"ok listen: :0 is free", "warn allowed_hosts: " + config.NoHosts + " → " + config.SetHosts, "warn auth.tokens: :0 can be reached from other machines without a token" + do}},
		"exposed with credentials": {func(c *config.Config) {
			c.Listen, c.Upstream.Headers = "0.0.0.0:0", map[string]string{"Authorization": "x"}
		}, []string{
			"ok listen: 0.0.0.0:0 is free", "warn allowed_hosts: *",
			"FAIL auth.tokens: 0.0.0.0:0 can be reached from other machines without a token, and its clients use dragoman's credentials: serve refuses to start" +
				do + ", or auth.trust_network: true where the network keeps others out",
		}},
		"exposed with tokens": {func(c *config.Config) { c.Listen, c.Auth.Tokens = "0.0.0.0:0", []string{"t"} }, []string{"ok listen: 0.0.0.0:0 is free", "warn allowed_hosts: *"}},
		"exposed with a name": {func(c *config.Config) {
			c.Listen, c.Auth.Tokens, c.AllowedHosts = "0.0.0.0:0", []string{"t"}, []string{"mcp.example"}
		}, []string{"ok listen: 0.0.0.0:0 is free"}},
		"exposed in a trusted network": {func(c *config.Config) { c.Listen, c.Auth.TrustNetwork = "0.0.0.0:0", true }, []string{"ok listen: 0.0.0.0:0 is free", "warn allowed_hosts: *"}},
		"certificate": {func(c *config.Config) { c.TLS = config.TLS{Cert: cert, Key: key} }, []string{
			"ok listen: 127.0.0.1:0 is free",
			"warn " + cert + ": the listener's certificate for proxy.example ends on " + now.AddDate(0, 0, 5).UTC().Format("2006-01-02") + " → renew it; dragoman reads the files again on SIGHUP",
		}},
		"another key": {func(c *config.Config) { c.TLS = config.TLS{Cert: another, Key: key} }, []string{
			"ok listen: 127.0.0.1:0 is free", "FAIL tls: the certificate and its key cannot be used: *",
		}},
	} {
		t.Run(name, func(t *testing.T) { want(t, examine(t, with(c.change), "listeners"), c.want...) })
	}
	e := newExam(Options{})
	e.cfg = config.Default()
	e.cfg.Admin.Movable = true
	if e.port("admin.listen", busy.Addr().String(), "admin.listen: ", nil); textOf(e.lines[0]) != "ok admin.listen: "+busy.Addr().String()+" is in use by "+holder+": serve takes a free port for probes and metrics" {
		t.Errorf("%+v", e.lines)
	}
}
