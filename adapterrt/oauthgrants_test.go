package adapterrt

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"

	"github.com/dragoman-proxy/dragoman/adapterrt/file"
)

func TestOAuthClientAuthentication(t *testing.T) {
	var header, form string
	s := api(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/token" {
			r.ParseForm()
			header, form = r.Header.Get("Authorization"), r.PostForm.Encode()
			fmt.Fprint(w, `{"access_token":"t","expires_in":60}`)
			return
		}
		fmt.Fprint(w, `"fine"`)
	})
	dir := t.TempDir()
	subject := filepath.Join(dir, "subject")
	os.WriteFile(subject, []byte("canary-subject\n"), 0o600)
	opt := fromEnv("ID", "client id", "SECRET", "secret+1", "ASSERTION", "canary-assertion")
	const scopes = ", scopes: [a, b], audience: them, resource: 'https://api.example.com'"
	const scoped = "&resource=https%3A%2F%2Fapi.example.com&scope=a+b"
	for _, c := range []struct{ auth, header, form string }{
		{"client_secret_env: SECRET", "Basic Y2xpZW50K2lkOnNlY3JldCUyQjE=", "grant_type=client_credentials"},
		{"client_secret_env: SECRET, client_auth: post" + scopes, "", "audience=them&client_id=client+id&client_secret=secret%2B1&grant_type=client_credentials" + scoped},
		{"client_secret_env: SECRET, client_auth: basic, grant: token_exchange, subject_token_file: " + subject, "Basic Y2xpZW50K2lkOnNlY3JldCUyQjE=",
			"grant_type=urn%3Aietf%3Aparams%3Aoauth%3Agrant-type%3Atoken-exchange&subject_token=canary-subject&subject_token_type=urn%3Aietf%3Aparams%3Aoauth%3Atoken-type%3Aaccess_token"},
		{"client_auth: none, grant: token_exchange, subject_token_env: ASSERTION, subject_token_type: 'urn:ietf:params:oauth:token-type:jwt'", "",
			"client_id=client+id&grant_type=urn%3Aietf%3Aparams%3Aoauth%3Agrant-type%3Atoken-exchange&subject_token=canary-assertion&subject_token_type=urn%3Aietf%3Aparams%3Aoauth%3Atoken-type%3Ajwt"},
		{"client_auth: none, grant: jwt_bearer, assertion_env: ASSERTION" + scopes, "",
			"assertion=canary-assertion&audience=them&client_id=client+id&grant_type=urn%3Aietf%3Aparams%3Aoauth%3Agrant-type%3Ajwt-bearer" + scoped},
	} {
		mustBeFine(t, one(t, opt, s.URL, status, "auth: {type: oauth, token_url: '"+s.URL+"/token', client_id_env: ID, "+c.auth+"}"))
		if header != c.header || form != c.form {
			t.Errorf("%s:\n got %q %s\nwant %q %s", c.auth, header, form, c.header, c.form)
		}
	}
}

// keyFiles writes a new RSA key and a new key on the curve P-256. It returns the files by their format.
func keyFiles(t *testing.T) (files map[string]string, rsaKey *rsa.PublicKey, ecKey *ecdsa.PublicKey) {
	dir := t.TempDir()
	files = map[string]string{}
	write := func(name, kind string, der []byte) {
		files[name] = filepath.Join(dir, name)
		os.WriteFile(files[name], pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600)
	}
	r, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	write("pkcs1", "RSA PRIVATE KEY", x509.MarshalPKCS1PrivateKey(r))
	der, _ := x509.MarshalPKCS8PrivateKey(r)
	write("pkcs8", "PRIVATE KEY", der)
	e, _ := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	der, _ = x509.MarshalECPrivateKey(e)
	write("ec", "EC PRIVATE KEY", der)
	e384, _ := ecdsa.GenerateKey(elliptic.P384(), rand.Reader)
	der, _ = x509.MarshalECPrivateKey(e384)
	write("p384", "EC PRIVATE KEY", der)
	write("broken", "PRIVATE KEY", []byte("canary"))
	files["text"] = filepath.Join(dir, "text")
	os.WriteFile(files["text"], []byte("canary, no PEM"), 0o600)
	files["none"] = filepath.Join(dir, "none")
	return files, &r.PublicKey, &e.PublicKey
}

func TestOAuthClientAssertion(t *testing.T) {
	files, rsaKey, ecKey := keyFiles(t)
	var sent string
	s := api(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/token" {
			fmt.Fprint(w, `"fine"`)
			return
		}
		r.ParseForm()
		sent = r.PostForm.Get("client_assertion")
		if r.PostForm.Get("client_assertion_type") != "urn:ietf:params:oauth:client-assertion-type:jwt-bearer" || r.Header.Get("Authorization") != "" {
			t.Error(r.PostForm, r.Header)
		}
		fmt.Fprint(w, `{"access_token":"t","expires_in":60}`)
	})
	opt := fromEnv("ID", "the-client")
	auth := func(key, more string) string {
		return "auth: {type: oauth, token_url: '" + s.URL + "/token', client_id_env: ID, client_auth: private_key_jwt, client_key_file: " + files[key] + more + "}"
	}
	seen := map[string]bool{}
	for _, c := range []struct{ key, more, alg string }{
		{"pkcs1", "", "RS256"}, {"pkcs8", ", kid: k-1", "RS256"}, {"pkcs8", ", alg: PS256", "PS256"}, {"ec", ", kid: k-1, alg: ES256", "ES256"}, {"ec", "", "ES256"},
	} {
		mustBeFine(t, one(t, opt, s.URL, status, auth(c.key, c.more)))
		claims := jwt.MapClaims{}
		j, err := jwt.ParseWithClaims(sent, claims, func(j *jwt.Token) (any, error) {
			if c.alg == "ES256" {
				return ecKey, nil
			}
			return rsaKey, nil
		}, jwt.WithValidMethods([]string{c.alg}), jwt.WithAudience(s.URL+"/token"), jwt.WithIssuer("the-client"), jwt.WithSubject("the-client"), jwt.WithIssuedAt(), jwt.WithExpirationRequired())
		if err != nil {
			t.Errorf("%v: %v", c, err)
			continue
		}
		kid, _ := j.Header["kid"].(string)
		end, _ := claims.GetExpirationTime()
		begin, _ := claims.GetIssuedAt()
		id, _ := claims["jti"].(string)
		if kid != map[bool]string{true: "k-1"}[strings.Contains(c.more, "kid")] || end.Sub(begin.Time) != time.Minute || id == "" || seen[id] {
			t.Error(c, j.Header, claims)
		}
		seen[id] = true
	}
	for key, want := range map[string]string{
		"p384": "must be an RSA key or an EC key on the curve P-256", "broken": "contains no private key", "text": "contains no PEM block", "none": "no such file",
	} {
		got := allOfOne(one(t, opt, s.URL, status, auth(key, "")))
		if !strings.Contains(got, "AUTH_TOKEN_FAILED") || !strings.Contains(got, want) || strings.Contains(got, "canary") {
			t.Errorf("%s: %s", key, got)
		}
	}
	if got := allOfOne(one(t, opt, s.URL, status, auth("ec", ", alg: RS256"))); !strings.Contains(got, "alg RS256 does not fit the key") {
		t.Error(got)
	}
}

// allOfOne makes a call and returns everything that its result shows or could have logged.
func allOfOne(rt *Runtime) string {
	r := rt.Dispatch(context.Background(), Endpoint{}, &Request{Body: []byte(`{"operation":"get_status"}`)})
	return allOf(&r)
}

func TestMistakesOfGrants(t *testing.T) {
	const client = "client_id_env: ID, client_secret_env: SECRET"
	for auth, path := range map[string]string{
		client + ", client_auth: mtls":                                                               "auth.client_auth",
		"client_id_env: ID, client_auth: none":                                                       "auth.client_auth",
		"client_id_env: ID, client_auth: post":                                                       "auth.client_secret_env",
		"client_id_env: ID, client_auth: private_key_jwt":                                            "auth.client_key_file",
		"client_id_env: ID, client_auth: private_key_jwt, client_key_file: k, alg: HS256":            "auth.alg",
		client + ", client_auths: post":                                                              "auth.client_auths",
		client + ", grant: password":                                                                 "auth.grant",
		client + ", grant: refresh_token":                                                            "auth.refresh_token_env",
		client + ", grant: authorization_code":                                                       "auth.authorization_url",
		client + ", grant: authorization_code, authorization_url: 'http://as.example/a'":             "auth.authorization_url",
		client + ", authorization_url: 'https://a.example/a', redirect_url: 'https://evil.example/'": "auth.redirect_url",
		client + ", authorization_url: 'https://a.example/a', redirect_url: 'http://evil.example/'":  "auth.redirect_url",
		client + ", authorization_url: 'https://a.example/a', authorization_params: {state: x}":      "auth.authorization_params.state",
		client + ", authorization_url: 'https://a.example/a', authorization_params: {prompt: [a]}":   "auth.authorization_params.prompt",
		client + ", grant: device_code":                                                              "auth.device_authorization_url",
		client + ", grant: token_exchange":                                                           "auth.subject_token_env",
		client + ", grant: jwt_bearer":                                                               "auth.assertion_env",
		client + ", grant: refresh_token, refresh_token_env: 'canary/secret'":                        "auth.refresh_token_env",
		client + ", grant: device_code, device_authorization_url: 'https://u:p@a.example/d'":         "auth.device_authorization_url",
		client + ", resource: 7":                                                                     "auth.resource",
	} {
		_, problems := Parse("test-api-adapter.md", []byte(front("https://api.example.com", status, "auth: {type: oauth, token_url: 'https://a.example/t', "+auth+"}")), &Options{})
		found := false
		for _, p := range problems {
			found = found || p.Severity == file.Error && p.Path == path
			if strings.Contains(p.String(), "canary") {
				t.Error(p)
			}
		}
		if !found {
			t.Errorf("%s: %v", auth, problems)
		}
	}
	for _, auth := range []string{
		client + ", grant: refresh_token, refresh_token_file: /run/secrets/r",
		"client_id_file: /i, client_secret_file: /s",
		"client_id_env: ID, client_auth: none, grant: authorization_code, authorization_url: 'https://a.example/a', redirect_url: 'http://127.0.0.1:8765/callback', authorization_params: {access_type: offline}",
		"client_id_env: ID, client_auth: none, grant: device_code, device_authorization_url: 'https://a.example/d'",
		client + ", grant: refresh_token, authorization_url: 'https://a.example/a'",
	} {
		if a, problems := Parse("test-api-adapter.md", []byte(front("https://api.example.com", status, "auth: {type: oauth, token_url: 'https://a.example/t', "+auth+"}")), &Options{}); a == nil {
			t.Errorf("%s: %v", auth, problems)
		}
	}
}
