package credential

import (
	"context"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/dragoman-proxy/dragoman/adapterrt/file"
	"github.com/dragoman-proxy/dragoman/adapterrt/httpcall"
)

// TestSignaturesOfAWS has examples of the test suite that AWS publishes for version 4 of its signature, in
// https://github.com/awslabs/aws-c-auth/tree/main/tests/aws-signing-test-suite/v4, as far as a Go
// request can be like them: it has no path that is not escaped.
func TestSignaturesOfAWS(t *testing.T) {
	const (
		token  = "6e86291e8372ff2a2260956d9b8aae1d763fbf315fa00fa31553b73ebf194267"
		chars  = "-._~0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
		always = "host;x-amz-date"
	)
	for name, c := range map[string]struct {
		method, path, body string
		headers            []string
		token              string
		signed, signature  string
	}{
		"get-vanilla":                      {"GET", "/", "", nil, "", always, "5fa00fa31553b73ebf1942676e86291e8372ff2a2260956d9b8aae1d763fbf31"},
		"get-vanilla-with-session-token":   {"GET", "/", "", nil, token, always + ";x-amz-security-token", "07ec1639c89043aa0e3e2de82b96708f198cceab042d4a97044c66dd9f74e7f8"},
		"get-vanilla-query-order-key-case": {"GET", "/?Param2=value2&Param1=value1", "", nil, "", always, "b97d918cfa904a5beff61c982a1b6f458b799221646efd99d3219ec94cdf2500"},
		"get-vanilla-query-order-encoded":  {"GET", "/?Param-3=Value3&Param=Value2&%E1%88%B4=Value1", "", nil, "", always, "371d3713e185cc334048618a97f809c9ffe339c62934c032af5a0e595648fcac"},
		"get-vanilla-empty-query-key":      {"GET", "/?Param1=value1", "", nil, "", always, "a67d582fa61cc504c4bae71f336f98b97f1ea3c7a6bfe1b6e45aec72011b9aeb"},
		"get-vanilla-utf8-query":           {"GET", "/?%E1%88%B4=bar", "", nil, "", always, "2cdec8eed098649ff3a119c94853b13c643bcf08f8b0a1d91e12c9027818dd04"},
		"get-unreserved":                   {"GET", "/" + chars, "", nil, "", always, "07ef7494c76fa4850883e2b006601f940f8a34d404d0cfa977f52a65bbf5f24f"},
		"get-header-value-trim":            {"GET", "/", "", []string{"My-Header1", " value1", "My-Header2", ` "a   b   c"`}, "", "host;my-header1;my-header2;x-amz-date", "acc3ed3afb60bb290fc8d2dd0098b9911fcaa05412b367055dee359757a9c736"},
		"post-vanilla":                     {"POST", "/", "", nil, "", always, "5da7c1a2acd57cee7505fc6676e4e544621c30862966e37dddb68e92efbe5d6b"},
		"post-vanilla-query":               {"POST", "/?Param1=value1", "", nil, "", always, "28038455d6de14eafc1f9222cf5aa6f1a96197d7deb8263271d420d138af7f11"},
		"post-x-www-form-urlencoded": {"POST", "/", "Param1=value1", []string{"Content-Type", "application/x-www-form-urlencoded",
			"X-Amz-Content-Sha256", "9095672bbd1f56dfc5b65f3e153adc8731a4a654192329106275f4c7b24d0b6e"}, "",
			"content-length;content-type;host;x-amz-content-sha256;x-amz-date", "d3875051da38690788ef43de4db0d8f280229d82040bfac253562e56c3f20e0b"},
	} {
		env := map[string]string{"ID": "AKIDEXAMPLE", "SECRET": "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY", "TOKEN": c.token}
		k := NewKeeper(nil)
		k.Now = func() time.Time { return time.Date(2015, 8, 30, 12, 36, 0, 0, time.UTC) }
		k.Getenv = func(name string) (string, bool) { return env[name], true }
		w := &file.AWS{Service: "service", Region: "us-east-1", ID: file.Credential{Env: "ID"}, Secret: file.Credential{Env: "SECRET"}}
		if c.token != "" {
			w.Session.Env = "TOKEN"
		}
		s := NewSigner(k, &file.Adapter{Name: "x", Auth: file.Auth{Scheme: file.Scheme{Kind: file.AuthAWS}, AWS: w}})
		var o httpcall.Outgoing
		if f := s.Authorize(context.Background(), &o); f != nil {
			t.Fatal(name, f)
		}
		req, err := http.NewRequest(c.method, "https://example.amazonaws.com"+c.path, strings.NewReader(c.body))
		if err != nil {
			t.Fatal(err)
		}
		for i := 0; i < len(c.headers); i += 2 {
			req.Header.Set(c.headers[i], c.headers[i+1])
		}
		if err := o.Sign(req, []byte(c.body)); err != nil {
			t.Fatal(name, err)
		}
		want := "AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/20150830/us-east-1/service/aws4_request, SignedHeaders=" + c.signed + ", Signature=" + c.signature
		if got := req.Header.Get("Authorization"); got != want {
			t.Errorf("%s\ngot  %s\nwant %s", name, got, want)
		}
	}
}
