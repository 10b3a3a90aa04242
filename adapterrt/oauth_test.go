package adapterrt

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"io"
	"math/big"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/dragoman-proxy/dragoman/adapterrt/file"
)

// tokenServer issues the tokens t1, t2, …, of which only the latest is valid.
type tokenServer struct {
	mu     sync.Mutex
	given  int
	forms  []string
	reject bool // reject every token
	status int
	calls  int
}

func (s *tokenServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if r.URL.Path == "/token" {
		b, _ := io.ReadAll(r.Body)
		user, pass, _ := r.BasicAuth()
		s.forms = append(s.forms, user+":"+pass+" "+string(b))
		if s.status != 0 {
			w.WriteHeader(s.status)
			fmt.Fprint(w, `{"error":"client-secret-1 is wrong"}`)
			return
		}
		s.given++
		fmt.Fprintf(w, `{"access_token":"token-%d","token_type":"bearer","expires_in":3600,"refresh_token":"refresh-%d"}`, s.given, s.given)
		return
	}
	s.calls++
	if s.reject || r.Header.Get("Authorization") != fmt.Sprintf("Bearer token-%d", s.given) {
		w.WriteHeader(401)
		return
	}
	fmt.Fprint(w, s.given)
}

func TestOAuth(t *testing.T) {
	ck := &clock{at: someTime()}
	ts := &tokenServer{}
	s := httptest.NewServer(ts)
	t.Cleanup(s.Close)
	opt := fromEnv("ID", "client id", "SECRET", "client-secret-1", "REFRESH", "refresh-0")
	opt.Now = ck.now
	rt := one(t, opt, s.URL, status, "auth: {type: oauth2, token_url: '"+s.URL+"/token', client_id_env: ID, client_secret_env: SECRET, scopes: [a, b], audience: x}")
	call := func() string { return ask(rt, Endpoint{}, `{"operation":"get_status"}`) }
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			if got := call(); got != `{"success":true,"data":1}` {
				t.Error(got)
			}
		})
	}
	wg.Wait()
	if len(ts.forms) != 1 || ts.forms[0] != "client+id:client-secret-1 grant_type=client_credentials&scope=a+b&audience=x" {
		t.Error(ts.forms)
	}
	ck.pass(3569 * time.Second)
	if got := call(); got != `{"success":true,"data":1}` {
		t.Error(got)
	}
	ck.pass(2 * time.Second) // less than 30 s before the token expires
	if got := call(); got != `{"success":true,"data":2}` {
		t.Error(got)
	}
	ts.given++ // the server has revoked the token
	if got := call(); got != `{"success":true,"data":4}` {
		t.Error(got)
	}
	ts.reject, ts.calls = true, 0
	if got := call(); !strings.Contains(got, "PERMISSION_DENIED") || ts.calls != 2 {
		t.Error("repeated without end:", got, ts.calls)
	}
	ts.status = 400
	ck.pass(2 * time.Hour)
	r := rt.Dispatch(context.Background(), Endpoint{}, &Request{Body: []byte(`{"operation":"get_status"}`)})
	if got := string(r.JSON()); got != `{"success":false,"error":{"code":"AUTH_TOKEN_FAILED","message":"Token for adapter 'test-api' could not be obtained","details":{"adapter":"test-api"}}}` || strings.Contains(r.Call.Cause.Error(), "secret") || r.HTTPStatus() != 500 || !r.IsError() {
		t.Error(got, r.Call.Cause)
	}

	ts = &tokenServer{}
	s.Config.Handler = ts
	s2 := httptest.NewServer(ts)
	t.Cleanup(s2.Close)
	rt = one(t, opt, s2.URL, status, "auth: {type: oauth, grant: refresh_token, token_url: '"+s2.URL+"/token', client_id_env: ID, client_secret_env: SECRET, refresh_token_env: REFRESH}")
	call()
	ck.pass(2 * time.Hour)
	call()
	if got := strings.Join(ts.forms, " "); got != "client+id:client-secret-1 grant_type=refresh_token&refresh_token=refresh-0 client+id:client-secret-1 grant_type=refresh_token&refresh_token=refresh-1" {
		t.Error(got)
	}
}

func TestOAuthMistakes(t *testing.T) {
	const good = "type: oauth2, token_url: 'https://a.example/t', client_id_env: ID, client_secret_env: SECRET"
	if a, p := Parse("test-api-adapter.md", []byte(front("https://api.example.com", status, "auth: {"+good+"}")), &Options{}); a == nil {
		t.Fatal(p)
	}
	for old, repl := range map[string]string{"https:": "http:", "'https://a.example/t'": "no", ", client_id_env: ID": "", ", client_secret_env: SECRET": "", "type: oauth2": "type: oauth2, grant: password", "oauth2,": "oauth2, grant: refresh_token,"} {
		text := strings.Replace(good, old, repl, 1)
		if a, _ := Parse("test-api-adapter.md", []byte(front("https://api.example.com", status, "auth: {"+text+"}")), &Options{}); a != nil || text == good {
			t.Error(text, "passed")
		}
	}
}

// pemFiles writes a new self-signed certificate and its key.
func pemFiles(t *testing.T, dir string) (cert, key string, c *x509.Certificate) {
	t.Helper()
	k, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	tmpl := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "client"}, NotAfter: time.Now().Add(time.Hour), ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}, IsCA: true, BasicConstraintsValid: true}
	der, err := x509.CreateCertificate(rand.Reader, tmpl, tmpl, &k.PublicKey, k)
	if err != nil {
		t.Fatal(err)
	}
	raw, err := x509.MarshalECPrivateKey(k)
	if err != nil {
		t.Fatal(err)
	}
	cert, key = filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	for path, block := range map[string]*pem.Block{cert: {Type: "CERTIFICATE", Bytes: der}, key: {Type: "EC PRIVATE KEY", Bytes: raw}} {
		if err := os.WriteFile(path, pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	c, err = x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return cert, key, c
}

func TestClientCertificate(t *testing.T) {
	dir := t.TempDir()
	cert, key, c := pemFiles(t, dir)
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintf(w, `"%s %s"`, r.TLS.PeerCertificates[0].Subject.CommonName, r.Header.Get("Authorization"))
	}))
	pool := x509.NewCertPool()
	pool.AddCert(c)
	s.TLS = &tls.Config{ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: pool}
	s.StartTLS()
	t.Cleanup(s.Close)
	ca := filepath.Join(dir, "ca.pem")
	os.WriteFile(ca, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw}), 0o600)
	opt := fromEnv("T", "tok-en")
	const get = `{"operation":"get_status"}`
	files := "cert_file: " + cert + ", key_file: " + key + ", ca_file: "
	if got := ask(one(t, opt, s.URL, status, "auth: {type: mtls, "+files+ca+"}"), Endpoint{}, get); got != `{"success":true,"data":"client "}` {
		t.Error(got)
	}
	if got := ask(one(t, opt, s.URL, status, "auth: {type: bearer, token_env: T, mtls: {"+files+ca+"}}"), Endpoint{}, get); got != `{"success":true,"data":"client Bearer tok-en"}` {
		t.Error(got)
	}
	if got := ask(one(t, opt, s.URL, status, "auth: {type: mtls, "+files+filepath.Join(dir, "none.pem")+"}"), Endpoint{}, get); !strings.Contains(got, "TLS error: unknown authority") {
		t.Error("trusts any certificate:", got)
	}
	_, problems := Parse("test-api-adapter.md", []byte(front("https://api.example.com", status, "auth: {type: mtls, cert_file: /none, key_file: /none}")), &opt)
	if len(problems) != 1 || problems[0].Severity != file.Warning {
		t.Error(problems)
	}
	if a, _ := Parse("test-api-adapter.md", []byte(front("https://api.example.com", status, "auth: {type: mtls, cert_file: /none}")), &opt); a != nil {
		t.Error("a certificate without a key passed")
	}
}

func TestSecretFilesAreReadAgainWhenTheyChange(t *testing.T) {
	path := filepath.Join(t.TempDir(), "token")
	seen := ""
	s := api(t, func(_ http.ResponseWriter, r *http.Request) { seen = r.Header.Get("Authorization") })
	rt := one(t, Options{}, s.URL, status, "auth: {type: bearer, token_file: "+path+"}")
	if got := ask(rt, Endpoint{}, `{"operation":"get_status"}`); !strings.Contains(got, "AUTH_CREDENTIAL_MISSING") || strings.Contains(got, path) {
		t.Error(got)
	}
	for i, secret := range []string{"one-secret", "another-one"} {
		os.WriteFile(path, []byte(secret+"\r\n"), 0o600)
		at := time.Now().Add(time.Duration(i) * time.Hour)
		os.Chtimes(path, at, at)
		for range 2 {
			if ask(rt, Endpoint{}, `{"operation":"get_status"}`); seen != "Bearer "+secret {
				t.Error(seen)
			}
		}
	}
}
