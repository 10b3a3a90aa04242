// Package fleet runs several dragoman processes as one service: behind a balancer that knows no sessions, with or
// without a store that they share, in front of a server and an API that count what reaches them. Published clients
// use the service while replicas are killed and the store's engine is restarted, and tell what went wrong.
package fleet

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"sync"
	"time"
)

const maxBody = 8 << 20

// ServedBy is the header in which a Balancer says which backend sent a response.
const ServedBy = "X-Served-By"

// Balancer sends each request to the next of its backends, whatever session it belongs to. Like a
// proxy with passive health checks, it tries the next backend if one cannot be connected to, and answers 502 if a
// connection breaks after the request was sent.
type Balancer struct {
	client *http.Client

	mu       sync.Mutex
	backends []string
	turn     int
}

// NewBalancer creates a balancer in front of backends, given by their addresses.
func NewBalancer(backends ...string) *Balancer {
	d := &net.Dialer{Timeout: time.Second}
	transport := &http.Transport{DialContext: d.DialContext, MaxIdleConnsPerHost: 256, DisableCompression: true}
	return &Balancer{backends: backends, client: &http.Client{Transport: transport}}
}

// Close closes the balancer's idle connections.
func (b *Balancer) Close() { b.client.CloseIdleConnections() }

// order returns all backends, beginning with the one whose turn it is.
func (b *Balancer) order() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.turn++
	at := b.turn % len(b.backends)
	return append(append([]string(nil), b.backends[at:]...), b.backends[:at]...)
}

// ServeHTTP forwards a request, and its response piece by piece.
func (b *Balancer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(io.LimitReader(r.Body, maxBody))
	if err != nil {
		return
	}
	for _, addr := range b.order() {
		resp, err := b.try(r, addr, body)
		if unreached(err) && r.Context().Err() == nil {
			continue
		}
		w.Header().Set(ServedBy, addr)
		if err != nil {
			w.WriteHeader(http.StatusBadGateway)
			return
		}
		defer resp.Body.Close()
		forward(w, resp)
		return
	}
	w.WriteHeader(http.StatusServiceUnavailable)
}

func (b *Balancer) try(r *http.Request, addr string, body []byte) (*http.Response, error) {
	to := *r.URL
	to.Scheme, to.Host = "http", addr
	// The transport repeats a POST only if nothing of it was written: the connection was closed while it was idle.
	out, err := http.NewRequestWithContext(r.Context(), r.Method, to.String(), bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	out.Header = r.Header.Clone()
	return b.client.Do(out)
}

// unreached reports whether a request failed before anything of it was sent.
func unreached(err error) bool {
	op, ok := errors.AsType[*net.OpError](err)
	return ok && op.Op == "dial" && !errors.Is(err, context.Canceled)
}

// forward copies a response. If the backend's connection breaks, so does the client's: a response that only ended
// would look complete.
func forward(w http.ResponseWriter, resp *http.Response) {
	for name, values := range resp.Header {
		w.Header()[name] = values
	}
	w.WriteHeader(resp.StatusCode)
	flush := http.NewResponseController(w)
	for piece := make([]byte, 16<<10); ; {
		if flush.Flush() != nil {
			return
		}
		n, err := resp.Body.Read(piece)
		if _, failed := w.Write(piece[:n]); failed != nil {
			return
		}
		switch {
		case err == io.EOF:
			return
		case err != nil:
			panic(http.ErrAbortHandler)
		}
	}
}
