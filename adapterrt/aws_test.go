package adapterrt

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/dragoman-proxy/dragoman/adapterrt/file"
)

const (
	awsID, awsSecret, awsToken = "AKIDEXAMPLE0123456AB", "wJalrXUtnFEMIK7MDENGbPxRfiCYEXAMPLEKEY12", "session-token-of-temporary-credentials"
	signedAuth                 = "auth: {type: aws-sig4, service: execute-api, region: eu-central-1, access_key_id_env: ID, secret_access_key_env: SECRET, session_token_env: TOKEN}"
)

func awsOptions() Options {
	return Options{Getenv: environment("ID", awsID, "SECRET", awsSecret, "TOKEN", awsToken), InsecureHosts: []string{"127.0.0.1"}}
}

// wrongSignature checks the signature of a request as it arrived, by the rules of
// https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_sigv-create-signed-request.html, for a
// path without special characters and a sorted query. It returns what is wrong with it, or "".
func wrongSignature(r *http.Request, body []byte, service string) string {
	_, rest, _ := strings.Cut(r.Header.Get("Authorization"), "SignedHeaders=")
	names, signature, ok := strings.Cut(rest, ", Signature=")
	if !ok {
		return "no signature: " + r.Header.Get("Authorization")
	}
	mac := func(key []byte, text string) []byte {
		h := hmac.New(sha256.New, key)
		h.Write([]byte(text))
		return h.Sum(nil)
	}
	sum := func(b []byte) string { s := sha256.Sum256(b); return hex.EncodeToString(s[:]) }
	canonical := r.Method + "\n" + r.URL.EscapedPath() + "\n" + r.URL.RawQuery + "\n"
	for _, name := range strings.Split(names, ";") {
		v := r.Header.Get(name)
		switch name {
		case "host":
			v = r.Host
		case "content-length":
			v = fmt.Sprint(r.ContentLength)
		}
		canonical += name + ":" + v + "\n"
	}
	canonical += "\n" + names + "\n" + sum(body)
	at := r.Header.Get("X-Amz-Date")
	if when, err := time.Parse("20060102T150405Z", at); err != nil || time.Since(when).Abs() > time.Hour {
		return "its date is " + at
	}
	scope := at[:8] + "/eu-central-1/" + service + "/aws4_request"
	key := mac(mac(mac(mac([]byte("AWS4"+awsSecret), at[:8]), "eu-central-1"), service), "aws4_request")
	if want := hex.EncodeToString(mac(key, "AWS4-HMAC-SHA256\n"+at+"\n"+scope+"\n"+sum([]byte(canonical)))); want != signature {
		return "signature " + signature + ", want " + want + " of\n" + canonical
	}
	for _, name := range []string{"host", "x-amz-date", "x-amz-security-token", "x-version"} {
		if !slices.Contains(strings.Split(names, ";"), name) {
			return name + " is not signed"
		}
	}
	return ""
}

// TestRequestsAreSignedForAWS checks the signatures of requests as an API receives them: with
// parameters, a body, and when a request is sent once more.
func TestRequestsAreSignedForAWS(t *testing.T) {
	const ops = "read:\n- {name: list, maps_to: GET /items, description: L, params: {after: {type: string}, limit: {type: integer}}}\n" +
		"create:\n- {name: post, maps_to: POST /items, description: P, params: {title: {type: string, required: true}}}"
	for _, service := range []string{"execute-api", "s3"} {
		n := 0
		s := api(t, func(w http.ResponseWriter, r *http.Request) {
			n++
			body, _ := io.ReadAll(r.Body)
			if wrong := wrongSignature(r, body, service); wrong != "" {
				t.Errorf("%s: %s %s: %s", service, r.Method, r.URL, wrong)
			}
			if got := r.Header.Get("X-Amz-Content-Sha256"); (got != "") != (service == "s3") {
				t.Errorf("%s: digest %q", service, got)
			}
			if n%2 == 1 { // each request is signed anew
				w.Header().Set("Retry-After", "0")
				w.WriteHeader(429)
				return
			}
			io.WriteString(w, "1")
		})
		text := strings.Replace(front(s.URL, ops, strings.Replace(signedAuth, "execute-api", service, 1)), "serialization: json", "serialization: json, headers: {X-Version: \"2\"}", 1)
		rt := start(t, awsOptions(), map[string]string{"test-api-adapter.md": text})
		for _, body := range []string{`{"operation":"list"}`, `{"operation":"list","params":{"after":"b","limit":3}}`, `{"operation":"post","params":{"title":"ünïcode"}}`} {
			if got := ask(rt, Endpoint{}, body); got != `{"success":true,"data":1}` {
				t.Error(service, body, got)
			}
		}
		if n != 6 {
			t.Error(service, n, "requests")
		}
	}
}

// TestRedirectsAreSignedForAWS: a signature holds for one address only.
func TestRedirectsAreSignedForAWS(t *testing.T) {
	s := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if wrong := wrongSignature(r, nil, "execute-api"); wrong != "" {
			t.Errorf("%s: %s", r.URL, wrong)
		}
		if r.URL.Path == "/status" {
			http.Redirect(w, r, "/elsewhere?a=b", 302)
			return
		}
		io.WriteString(w, `"there"`)
	}))
	defer s.Close()
	o := awsOptions()
	o.RootCAs, o.SameOriginRedirects = x509.NewCertPool(), true
	o.RootCAs.AddCert(s.Certificate())
	text := strings.Replace(front(s.URL, status, signedAuth), "serialization: json", "serialization: json, headers: {X-Version: \"2\"}", 1)
	rt := start(t, o, map[string]string{"test-api-adapter.md": text})
	if got := ask(rt, Endpoint{}, `{"operation":"get_status"}`); got != `{"success":true,"data":"there"}` {
		t.Error(got)
	}
}

// TestSecretsOfAWSStayInside has an API that repeats in its errors what it got, as AWS does with the
// text that it signs.
func TestSecretsOfAWSStayInside(t *testing.T) {
	s := api(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(403)
		fmt.Fprintf(w, `{"message":"The Canonical String should have been x-amz-security-token:%s %s %s","more":%q}`, r.Header.Get("X-Amz-Security-Token"), awsSecret, awsID, awsToken)
	})
	rt := one(t, awsOptions(), s.URL, status, signedAuth)
	r := rt.Dispatch(context.Background(), Endpoint{}, &Request{Body: []byte(`{"operation":"get_status"}`)})
	p, f := rt.Preview(Endpoint{}, &Request{Body: []byte(`{"operation":"get_status"}`)})
	if f != nil {
		t.Fatal(f)
	}
	all := fmt.Sprintf("%s %+v %+v %+v", r.JSON(), r.Call, r.Failure, p)
	for _, secret := range []string{awsSecret, awsToken} {
		if strings.Contains(all, secret) {
			t.Errorf("%s is in %s", secret, all)
		}
	}
	if r.Failure == nil || r.Failure.Code != "PERMISSION_DENIED" || !slices.ContainsFunc(p.Header, func(h file.Header) bool {
		return h.Name == "Authorization" && strings.HasPrefix(h.Value, "AWS4-HMAC-SHA256 ")
	}) {
		t.Error(all)
	}
}

// TestKeysOfAWSFromFiles: keys come from files, too, and a missing one is named only in the log.
func TestKeysOfAWSFromFiles(t *testing.T) {
	s := api(t, func(w http.ResponseWriter, r *http.Request) {
		if !strings.Contains(r.Header.Get("Authorization"), "Credential="+awsID+"/") || r.Header.Get("X-Amz-Security-Token") != "" {
			t.Error(r.Header)
		}
		io.WriteString(w, "1")
	})
	dir := t.TempDir()
	id, secret := filepath.Join(dir, "id"), filepath.Join(dir, "secret")
	os.WriteFile(id, []byte(awsID+"\n"), 0o600)
	os.WriteFile(secret, []byte(awsSecret+"\n"), 0o600)
	rt := one(t, awsOptions(), s.URL, status, fmt.Sprintf("auth: {type: aws-sig4, service: dynamodb, region: eu-central-1, access_key_id_file: %q, secret_access_key_file: %q}", id, secret))
	if got := ask(rt, Endpoint{}, `{"operation":"get_status"}`); got != `{"success":true,"data":1}` {
		t.Error(got)
	}
	os.Remove(secret)
	r := rt.Dispatch(context.Background(), Endpoint{}, &Request{Body: []byte(`{"operation":"get_status"}`)})
	if got := string(r.JSON()); !strings.Contains(got, "AUTH_CREDENTIAL_MISSING") || strings.Contains(got, dir) {
		t.Error(got)
	}
}

func TestMistakesOfAWS(t *testing.T) {
	for auth, want := range map[string][]string{
		"{type: aws-sig4}": {"auth.access_key_id_env", "auth.region", "auth.secret_access_key_env", "auth.service"},
		"{type: aws-sig4, service: Execute API, region: eu_central, access_key_id_env: 'a b', secret_access_key_env: S, session_token_env: '', token_env: T}": {
			"auth.access_key_id_env", "auth.region", "auth.service", "auth.session_token_env", "auth.token_env"},
		"{type: aws-sig4, service: s3, region: r, access_key_id_env: I, secret_access_key_env: S, also: [{type: bearer, token_env: T}]}": {"auth.also[0]"},
	} {
		_, problems := Parse("test-api-adapter.md", []byte(front("https://api.example.com", status, "auth: "+auth)), &Options{})
		var got []string
		for _, p := range problems {
			if p.Severity == file.Error {
				got = append(got, p.Path)
			}
		}
		slices.Sort(got)
		same(t, got, want...)
	}
	_, problems := Parse("test-api-adapter.md", []byte(front("https://api.example.com", status, "auth: {type: aws-sig4, service: s3, region: r, access_key_id_env: I, secret_access_key_env: S, secret_access_key: "+awsSecret+"}")), &Options{})
	if text := fmt.Sprint(problems); !strings.Contains(text, string(file.SchemaEmbeddedCredential)) || strings.Contains(text, awsSecret) {
		t.Error(text)
	}
	// A caller's header is no signature.
	rt, err := New(Options{Callers: map[string]Callers{"test-api": {Headers: map[string]string{"Authorization": "X-Key"}}}})
	if err != nil {
		t.Fatal(err)
	}
	defer rt.Close()
	path := filepath.Join(t.TempDir(), "test-api-adapter.md")
	os.WriteFile(path, []byte(front("https://api.example.com", status, signedAuth)), 0o600)
	if _, err := rt.Load([]string{path}); err == nil {
		t.Error("loaded with adapters.callers")
	}
}
