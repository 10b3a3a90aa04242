// Package proxies has the proxies that translate nothing, which dragoman is compared with.
package proxies

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"github.com/valyala/fasthttp"

	"github.com/dragoman-proxy/dragoman/bench/compare/process"
)

// maxConns is the limit of connections, more than any load opens at these proxies.
const maxConns = 1024

// ServeBare is a minimal proxy with fasthttp to the host of upstream: what a proxy costs that does nothing else.
func ServeBare(ctx context.Context, ln net.Listener, upstream string) error {
	to, err := url.Parse(upstream)
	if err != nil {
		return err
	}
	client := &fasthttp.HostClient{Addr: to.Host, MaxConns: maxConns}
	return ServeHTTP(ctx, ln, func(c *fasthttp.RequestCtx) {
		c.Request.Header.Del(fasthttp.HeaderConnection)
		if err := client.Do(&c.Request, &c.Response); err != nil {
			c.Error(err.Error(), fasthttp.StatusBadGateway)
			return
		}
		c.Response.Header.Del(fasthttp.HeaderConnection)
	})
}

// ServeHTTP serves with fasthttp until ctx ends.
func ServeHTTP(ctx context.Context, ln net.Listener, h fasthttp.RequestHandler) error {
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

// nginxConfig uses one process, because only one is measured, and no buffer file.
const nginxConfig = `daemon off; master_process off; worker_processes 1;
pid %[1]s/nginx.pid; error_log stderr warn;
events { worker_connections 1024; }
http {
	access_log off;
	client_body_temp_path %[1]s/body; proxy_temp_path %[1]s/proxy; fastcgi_temp_path %[1]s/fastcgi;
	uwsgi_temp_path %[1]s/uwsgi; scgi_temp_path %[1]s/scgi;
	keepalive_requests 100000000;
	upstream server { server %[2]s; keepalive 64; keepalive_requests 100000000; }
	server {
		listen %[3]s;
		location / {
			proxy_pass http://server; proxy_http_version 1.1; proxy_set_header Connection "";
			proxy_max_temp_file_size 0; client_max_body_size 10m;
		}
	}
}
`

// NGINX starts nginx in front of upstream, with its files in a new folder in dir. The process is nil if nginx is not
// installed.
func NGINX(ctx context.Context, dir, upstream string) (*process.Process, error) {
	file, err := exec.LookPath("nginx")
	if err != nil {
		return nil, nil
	}
	to, err := url.Parse(upstream)
	if err != nil {
		return nil, err
	}
	addr, err := FreeAddress()
	if err != nil {
		return nil, err
	}
	if dir, err = os.MkdirTemp(dir, "nginx"); err != nil {
		return nil, err
	}
	config := filepath.Join(dir, "nginx.conf")
	if err := os.WriteFile(config, fmt.Appendf(nil, nginxConfig, dir, to.Host, addr), 0o600); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	return process.StartSilent(ctx, exec.Command(file, "-p", dir, "-e", "stderr", "-c", config), "http://"+addr+"/mcp", addr)
}

// FreeAddress returns a loopback address on which nothing listened a moment ago. Its port is none of those that systems give to
// outgoing connections, one of which could take it before the listener does, or while a process that listened there is restarted.
func FreeAddress() (addr string, err error) {
	const first, number, tries = 10000, 20000, 100
	for range tries {
		addr = fmt.Sprintf("127.0.0.1:%d", first+rand.IntN(number))
		var ln net.Listener
		if ln, err = net.Listen("tcp", addr); err == nil {
			return addr, ln.Close()
		}
	}
	return "", err
}
