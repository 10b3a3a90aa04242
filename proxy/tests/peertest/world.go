package peertest

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"sync"
	"syscall"
	"testing"
)

// worlds holds the [inMemory] of each test that has one.
var worlds sync.Map

// inMemory is where the peers of a test in a bubble meet.
type inMemory struct {
	mu sync.Mutex
	at map[string]*MemoryListener
}

// InMemory makes the peers of a test in a bubble of testing/synctest meet in memory, and not at sockets.
func InMemory(t testing.TB) {
	worlds.Store(t, &inMemory{at: map[string]*MemoryListener{}})
	t.Cleanup(func() { worlds.Delete(t) })
}

// Listen listens at an address that the peers of the test reach.
func Listen(t testing.TB) net.Listener {
	t.Helper()
	if w, ok := worlds.Load(t); ok {
		return w.(*inMemory).listen()
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	return ln
}

func (w *inMemory) listen() *MemoryListener {
	w.mu.Lock()
	defer w.mu.Unlock()
	ln := ListenInMemory(8080 + len(w.at))
	w.at[ln.Addr().String()] = ln
	return ln
}

// Dialer returns what connects the peers of the test, or nil if these are at sockets.
func Dialer(t testing.TB) func(ctx context.Context, network, address string) (net.Conn, error) {
	if w, ok := worlds.Load(t); ok {
		return w.(*inMemory).dial
	}
	return nil
}

func (w *inMemory) dial(ctx context.Context, network, address string) (net.Conn, error) {
	w.mu.Lock()
	ln := w.at[address]
	w.mu.Unlock()
	if ln == nil {
		return nil, &net.OpError{Op: "dial", Net: network, Err: fmt.Errorf("%s: %w", address, syscall.ECONNREFUSED)}
	}
	return ln.Dial(ctx, network, address)
}

// Dial connects to what listens at an address of [Listen].
func Dial(t testing.TB, address string) net.Conn {
	t.Helper()
	dial := Dialer(t)
	if dial == nil {
		dial = new(net.Dialer).DialContext
	}
	conn, err := dial(context.Background(), "tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	return conn
}

// WebClient returns an HTTP client with connections of its own to peers of the test.
func WebClient(t testing.TB) *http.Client {
	c := &http.Client{Transport: &http.Transport{DialContext: Dialer(t)}}
	t.Cleanup(c.CloseIdleConnections)
	return c
}

// Web serves HTTP until the test ends.
func Web(t testing.TB, h http.Handler) *httptest.Server {
	t.Helper()
	web := &httptest.Server{Listener: Listen(t), Config: &http.Server{Handler: h}}
	web.Start()
	t.Cleanup(func() {
		web.CloseClientConnections()
		web.Close()
	})
	return web
}
