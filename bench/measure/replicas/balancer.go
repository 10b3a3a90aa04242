// Package replicas runs several dragoman processes as one service: behind a balancer that knows no sessions, with
// a store that they share, in front of a server and an API that count what reaches them. Published clients
// use the service while replicas are killed and the store's engine is restarted, and tell what went wrong.
package replicas

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httputil"
	"sync/atomic"
	"time"
)

const maxBody = 8 << 20

// balancer sends each request to the next of its backends, whatever session it belongs to. Like a
// proxy with passive health checks, it tries the next backend if one cannot be connected to. The transport repeats a POST only if
// nothing of it was written: the connection was closed while it was idle.
type balancer struct {
	http.Transport
	backends []string // their addresses
	turn     atomic.Uint64
}

// newBalancer returns the handler of a balancer, which answers 502 if a connection breaks after the request was sent. If it breaks
// during the response, so does the client's: a response that only ended would look complete.
func newBalancer(backends ...string) *httputil.ReverseProxy {
	b := &balancer{backends: backends}
	b.DialContext, b.MaxIdleConnsPerHost, b.DisableCompression = (&net.Dialer{Timeout: time.Second}).DialContext, 256, true
	return &httputil.ReverseProxy{
		Rewrite:       func(*httputil.ProxyRequest) {},
		Transport:     b,
		FlushInterval: -1,
		ErrorLog:      log.New(io.Discard, "", 0),
		ErrorHandler:  func(w http.ResponseWriter, _ *http.Request, _ error) { w.WriteHeader(http.StatusBadGateway) },
	}
}

func (b *balancer) RoundTrip(r *http.Request) (resp *http.Response, err error) {
	var body []byte
	if r.Body != nil {
		if body, err = io.ReadAll(io.LimitReader(r.Body, maxBody)); err != nil {
			return nil, err
		}
	}
	first := b.turn.Add(1)
	for i := range uint64(len(b.backends)) {
		to := *r.URL
		to.Scheme, to.Host = "http", b.backends[(first+i)%uint64(len(b.backends))]
		one := r.Clone(r.Context())
		one.URL = &to
		if r.Body != nil {
			one.GetBody = func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(body)), nil }
			one.Body, _ = one.GetBody()
			one.ContentLength = int64(len(body))
		}
		resp, err = b.Transport.RoundTrip(one)
		if op, ok := errors.AsType[*net.OpError](err); !ok || op.Op != "dial" || errors.Is(err, context.Canceled) {
			break // it was reached
		}
	}
	return resp, err
}
