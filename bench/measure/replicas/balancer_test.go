package replicas

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

// TestBalancer checks that it has no affinity, passes backends that are down, repeats nothing that was sent, and does not take
// a response that breaks for a whole one.
func TestBalancer(t *testing.T) {
	front := httptest.NewServer(newBalancer(backend(t, "a"), unused(t), backend(t, "b")))
	defer front.Close()
	post := func(path string) (int, string, error) {
		resp, err := http.Post(front.URL+path, "text/plain", strings.NewReader("hello"))
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		text, err := io.ReadAll(resp.Body)
		return resp.StatusCode, string(text), err
	}
	got := map[string]int{}
	for range 9 {
		status, body, err := post("/")
		if err != nil || status != http.StatusOK {
			t.Errorf("%d %v", status, err)
		}
		got[body]++
	}
	for range 3 {
		if status, _, err := post("/break"); status != http.StatusBadGateway || err != nil {
			t.Errorf("%d %v", status, err)
		}
		if _, body, err := post("/half"); err == nil {
			t.Errorf("%q was taken for a response", body)
		}
	}
	if len(got) != 2 || got["a hello"] < 3 || got["b hello"] < 3 {
		t.Errorf("answers: %v", got)
	}
}
