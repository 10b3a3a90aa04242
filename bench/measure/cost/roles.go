package cost

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/valyala/fasthttp"

	"github.com/dragoman-proxy/dragoman/bench/measure/process"
	"github.com/dragoman-proxy/dragoman/translate"
)

// maxConns is the limit of connections, more than any load opens.
const maxConns = 1024

// Role says which of the other processes of a measurement this process is.
type Role struct {
	Name     string // stdio, http, sse or sessions: a server; bare or httputil: a proxy; collector: takes traces
	Revision string // of a server
	Tools    int    // how many tools a server has: 1, 50, 500 or 5000
	Argument string // the address of sessions; the URL of the server behind a proxy
}

// Serve runs a role, and returns when ctx ends.
func (r Role) Serve(ctx context.Context) error {
	addr := "127.0.0.1:0"
	if r.Name == "sessions" {
		addr = r.Argument
	}
	var s *responder
	switch r.Name {
	case "stdio", "http", "sse", "sessions":
		speaks := translate.Lookup(r.Revision)
		if speaks == nil {
			return fmt.Errorf("%q is no revision of the protocol", r.Revision)
		}
		var err error
		if s, err = newResponder(speaks, r.Tools); err != nil {
			return err
		}
		if r.Name == "stdio" {
			return s.serveStdio(os.Stdin, os.Stdout)
		}
	}
	ln, err := net.Listen("tcp", addr)
	if err != nil {
		return err
	}
	path := "/mcp"
	if r.Name == "sse" {
		path = "/sse"
	}
	process.Announce("http://" + ln.Addr().String() + path)
	return r.serve(ctx, ln, s)
}

func (r Role) serve(ctx context.Context, ln net.Listener, s *responder) error {
	switch r.Name {
	case "http", "sessions":
		return s.serveHTTP(ctx, ln, r.Name == "sessions")
	case "sse":
		return s.serveSSE(ctx, ln)
	case "bare":
		return serveBare(ctx, ln, r.Argument)
	case "httputil":
		return serveReverseProxy(ctx, ln, r.Argument)
	case "collector": // spans are not decoded, since only dragoman is measured
		return serveFast(ctx, ln, func(*fasthttp.RequestCtx) {})
	}
	return fmt.Errorf("no process is called %q", r.Name)
}

// serveBare is a minimal proxy with fasthttp to the host of upstream: what a proxy costs that does nothing else.
func serveBare(ctx context.Context, ln net.Listener, upstream string) error {
	to, err := url.Parse(upstream)
	if err != nil {
		return err
	}
	client := &fasthttp.HostClient{Addr: to.Host, MaxConns: maxConns}
	return serveFast(ctx, ln, func(c *fasthttp.RequestCtx) {
		c.Request.Header.Del(fasthttp.HeaderConnection)
		if err := client.Do(&c.Request, &c.Response); err != nil {
			c.Error(err.Error(), fasthttp.StatusBadGateway)
			return
		}
		c.Response.Header.Del(fasthttp.HeaderConnection)
	})
}

// serveReverseProxy is the standard library's proxy, with enough idle connections to reuse all of them.
func serveReverseProxy(ctx context.Context, ln net.Listener, upstream string) error {
	to, err := url.Parse(strings.TrimSuffix(upstream, "/mcp"))
	if err != nil {
		return err
	}
	proxy := &httputil.ReverseProxy{
		Rewrite:   func(r *httputil.ProxyRequest) { r.SetURL(to) },
		Transport: &http.Transport{MaxIdleConnsPerHost: maxConns, DisableCompression: true},
	}
	return serveStandard(ctx, ln, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		// Without this, an answer that comes before the transport has read the end of the
		// request closes the request's body, and with it the connection to the server.
		http.NewResponseController(w).EnableFullDuplex()
		proxy.ServeHTTP(w, r)
	}))
}

// serveFast serves with fasthttp until ctx ends.
func serveFast(ctx context.Context, ln net.Listener, h fasthttp.RequestHandler) error {
	s := &fasthttp.Server{Handler: h, Concurrency: maxConns, CloseOnShutdown: true}
	served := make(chan error, 1)
	go func() { served <- s.Serve(ln) }()
	select {
	case err := <-served:
		return err
	case <-ctx.Done():
	}
	end, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	s.ShutdownWithContext(end) // requests that hang end with the process
	return nil
}

// serveStandard serves with the standard library until ctx ends.
func serveStandard(ctx context.Context, ln net.Listener, h http.Handler) error {
	s := &http.Server{Handler: h, ReadHeaderTimeout: time.Minute}
	stop := context.AfterFunc(ctx, func() { s.Close() })
	defer stop()
	if err := s.Serve(ln); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}
