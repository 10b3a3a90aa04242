package fleet

import (
	"io"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
)

// TestListening knows when the standing stream is open, and repeats a GET that cannot be served.
func TestListening(t *testing.T) {
	var gets atomic.Int64
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if gets.Add(1)%2 == 1 {
			w.WriteHeader(http.StatusBadGateway)
			return
		}
		_, _ = io.WriteString(w, "data: {}\n\n")
	}))
	defer web.Close()
	l := &listening{next: http.DefaultTransport}
	client := http.Client{Transport: l}
	for stream := 1; stream < 3; stream++ {
		resp, err := client.Get(web.URL)
		if err != nil {
			t.Fatal(err)
		}
		if got := l.number(); resp.StatusCode != http.StatusOK || got != stream {
			t.Errorf("status %d, stream %d is open, want %d", resp.StatusCode, got, stream)
		}
		if _, err := io.Copy(io.Discard, resp.Body); err != nil || l.number() != 0 {
			t.Errorf("%v, stream %d is open after its end", err, l.number())
		}
		resp.Body.Close()
	}
}

// TestARefusedDeleteIsSeen although the published client does not look at the status.
func TestARefusedDeleteIsSeen(t *testing.T) {
	status := http.StatusNoContent
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "busy", status) }))
	defer web.Close()
	l := &listening{next: http.DefaultTransport}
	for _, want := range []string{"", "502 Bad Gateway busy\n"} {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodDelete, web.URL, nil)
		if err != nil {
			t.Fatal(err)
		}
		resp, err := l.RoundTrip(r)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if got := l.refused(); got != want {
			t.Errorf("status %d was seen as %q, want %q", status, got, want)
		}
		status = http.StatusBadGateway
	}
}
