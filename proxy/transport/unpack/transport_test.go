package unpack

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/dragoman-proxy/dragoman/proxy/protocol/mcp"
)

// TestTransport decodes what a server has compressed unasked, and leaves all else as it is.
func TestTransport(t *testing.T) {
	const text = `{"issuer":"https://example.com"}`
	encoding, body := "", []byte(nil)
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Encoding", encoding)
		w.Write(body)
	}))
	defer srv.Close()
	client := &http.Client{Transport: Transport{&http.Transport{DisableCompression: true}}}
	defer client.CloseIdleConnections()
	ask := func(method string) (*http.Response, string, error) {
		r, _ := http.NewRequestWithContext(t.Context(), method, srv.URL, nil)
		res, err := client.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		got, err := io.ReadAll(res.Body)
		return res, string(got), err
	}
	for way, c := range ways {
		encoding, body = c.coding.String(), packed(c.to, text)
		if res, got, err := ask("GET"); got != text || err != nil || len(res.Header["Content-Encoding"]) > 0 || res.ContentLength != -1 {
			t.Errorf("%s: %q, %v, %v", way, got, err, res.Header)
		}
		if res, got, err := ask("HEAD"); got != "" || err != nil || res.Header.Get("Content-Encoding") != encoding {
			t.Errorf("%s: HEAD: %q, %v, %v", way, got, err, res.Header)
		}
		if encoding += ", gzip"; strings.Count(encoding, "gzip") == 1 {
			if _, got, err := ask("GET"); got != string(body) || err != nil {
				t.Errorf("%s: two codings: %q, %v", way, got, err)
			}
		}
	}
	encoding, body = "br", packed(ways["br"].to, text)
	(documents{}).Hold(60 << 20)
	if _, _, err := ask("GET"); !errors.Is(err, errBusy) {
		t.Errorf("without memory: %v", err)
	}
	(documents{}).Drop(60 << 20)
	if n := inDocuments.Load(); n != 0 {
		t.Errorf("%d bytes are held at the end", n)
	}
}

// TestTransportNamesDragoman: requests say which program has sent them, unless they say something else, or nothing on purpose.
func TestTransportNamesDragoman(t *testing.T) {
	var got []string
	at := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { got = append(got, r.UserAgent()) }))
	defer at.Close()
	by := new(http.Transport)
	defer by.CloseIdleConnections()
	for _, said := range []http.Header{{}, {"User-Agent": {"client/1"}}, {"User-Agent": nil}} {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, at.URL, nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Header = said
		res, err := (Transport{RoundTripper: by}).RoundTrip(r)
		if err != nil {
			t.Fatal(err)
		}
		_ = res.Body.Close()
		if len(said) == 0 && r.UserAgent() != "" {
			t.Error("the request was changed")
		}
	}
	if want := []string{mcp.UserAgent(), "client/1", ""}; !slices.Equal(got, want) || !strings.HasPrefix(want[0], "dragoman/") {
		t.Errorf("%q", got)
	}
}
