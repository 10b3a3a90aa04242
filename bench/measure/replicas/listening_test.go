package replicas

import (
	"io"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
)

// TestListening knows when the standing stream is open, repeats a GET that cannot be served, and sees a DELETE that is
// refused, at whose status the published client does not look.
func TestListening(t *testing.T) {
	var requests atomic.Int64
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if requests.Add(1)%2 == 1 {
			http.Error(w, "busy", http.StatusBadGateway)
			return
		}
		_, _ = io.WriteString(w, "data: {}\n\n")
	}))
	defer web.Close()
	l := &listening{next: http.DefaultTransport}
	for stream := int64(1); stream < 3; stream++ {
		resp, err := (&http.Client{Transport: l}).Get(web.URL)
		if err != nil {
			t.Fatal(err)
		}
		if got := l.opens.Load(); resp.StatusCode != http.StatusOK || got != stream {
			t.Errorf("status %d, stream %d is open, want %d", resp.StatusCode, got, stream)
		}
		if _, err := io.Copy(io.Discard, resp.Body); err != nil || l.opens.Load() != 0 {
			t.Errorf("%v, stream %d is open after its end", err, l.opens.Load())
		}
		resp.Body.Close()
	}
	r, err := http.NewRequestWithContext(t.Context(), http.MethodDelete, web.URL, nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := l.RoundTrip(r)
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if got := l.refusal.Load(); got != "502 Bad Gateway busy\n" {
		t.Errorf("the refusal was seen as %q", got)
	}
}
