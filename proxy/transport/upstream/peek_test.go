package upstream

import (
	"io"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// TestPeekTakesNoRoom: at a server that has room for one stream of HTTP+SSE, a session waits until a look has given back its stream, and a
// look takes none once a session has asked for one.
func TestPeekTakesNoRoom(t *testing.T) {
	var streams atomic.Int32
	looking, goOn := make(chan struct{}), make(chan struct{})
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPost {
			w.WriteHeader(http.StatusAccepted)
			return
		}
		if streams.Add(1) == 1 {
			close(looking)
			<-goOn
		}
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = io.WriteString(w, "event: endpoint\ndata: /messages\n\n")
		w.(http.Flusher).Flush()
		<-r.Context().Done()
	}))
	t.Cleanup(web.Close)
	d, err := NewDialer(HTTPConfig{URL: web.URL + "/sse"}, HTTPWithSSE)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { d.Close() })
	var both sync.WaitGroup
	both.Go(func() {
		if err := d.Peek(t.Context()); err != nil {
			t.Error(err)
		}
	})
	<-looking
	both.Go(func() {
		begun, err := d.Connect(t.Context(), &Outgoing{Body: []byte(`{}`), Request: true})
		if err != nil {
			t.Error(err)
			return
		}
		t.Cleanup(func() { begun.Conn.Close(t.Context()) })
	})
	for !d.streamed.Load() { // then it waits
		time.Sleep(time.Millisecond)
	}
	if n := streams.Load(); n != 1 {
		t.Errorf("%d streams while the look has one", n)
	}
	close(goOn)
	both.Wait()
	if err := d.Peek(t.Context()); err != nil || streams.Load() != 2 {
		t.Errorf("%v, %d streams, want 2", err, streams.Load())
	}
}
