package fleet

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// backend is a server that answers with its name, and breaks the connection for the path /break.
func backend(t *testing.T, name string) string {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/break" {
			panic(http.ErrAbortHandler)
		}
		body, _ := io.ReadAll(r.Body)
		fmt.Fprintf(w, "%s %s", name, body)
		if r.URL.Path == "/half" {
			http.NewResponseController(w).Flush()
			panic(http.ErrAbortHandler)
		}
	}))
	t.Cleanup(s.Close)
	return s.Listener.Addr().String()
}

// unused returns an address at which nothing listens.
func unused(t *testing.T) string {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ln.Close()
	return ln.Addr().String()
}

func post(t *testing.T, url string) (status int, body string, err error) {
	resp, err := http.Post(url, "text/plain", strings.NewReader("hello"))
	if err != nil {
		return 0, "", err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	return resp.StatusCode, string(text), err
}

func TestBalancerHasNoAffinity(t *testing.T) {
	b := NewBalancer(backend(t, "a"), backend(t, "b"), backend(t, "c"))
	front := httptest.NewServer(b)
	defer front.Close()
	got := map[string]int{}
	for range 9 {
		_, body, err := post(t, front.URL)
		if err != nil {
			t.Fatal(err)
		}
		got[body]++
	}
	for _, name := range []string{"a", "b", "c"} {
		if got[name+" hello"] != 3 {
			t.Errorf("answers: %v", got)
		}
	}
}

func TestBalancerPassesBackendsThatAreDown(t *testing.T) {
	b := NewBalancer(unused(t), backend(t, "b"), unused(t))
	front := httptest.NewServer(b)
	defer front.Close()
	for range 3 {
		if status, body, err := post(t, front.URL); status != http.StatusOK || body != "b hello" || err != nil {
			t.Errorf("%d %q %v", status, body, err)
		}
	}
	b = NewBalancer(unused(t))
	alone := httptest.NewServer(b)
	defer alone.Close()
	if status, _, err := post(t, alone.URL); status != http.StatusServiceUnavailable || err != nil {
		t.Errorf("%d %v", status, err)
	}
}

// TestBalancerRepeatsNothingThatWasSent checks that a request whose connection breaks is not sent to another backend, and
// that a response that breaks is not taken for a whole one.
func TestBalancerRepeatsNothingThatWasSent(t *testing.T) {
	b := NewBalancer(backend(t, "a"), backend(t, "b"))
	front := httptest.NewServer(b)
	defer front.Close()
	for range 4 {
		if status, _, err := post(t, front.URL+"/break"); status != http.StatusBadGateway || err != nil {
			t.Errorf("%d %v", status, err)
		}
		if _, body, err := post(t, front.URL+"/half"); err == nil {
			t.Errorf("%q was taken for a response", body)
		}
	}
}
