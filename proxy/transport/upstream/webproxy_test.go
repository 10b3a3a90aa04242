package upstream

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/dragoman-proxy/dragoman/proxy/tests/peertest"
)

// proxied is a proxy that forwards requests, and records how.
type proxied struct {
	*httptest.Server
	mu  sync.Mutex
	got []string // method, target and credentials of each request
}

func newProxied(t *testing.T, secure bool) *proxied {
	t.Helper()
	p := new(proxied)
	p.Server = httptest.NewUnstartedServer(p)
	p.Config.ErrorLog = log.New(io.Discard, "", 0)
	if secure {
		p.StartTLS()
	} else {
		p.Start()
	}
	t.Cleanup(p.Close)
	return p
}

func (p *proxied) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	p.mu.Lock()
	p.got = append(p.got, r.Method+" "+r.RequestURI+" "+r.Header.Get("Proxy-Authorization"))
	p.mu.Unlock()
	if r.Method == "CONNECT" {
		p.tunnel(w, r.Host)
		return
	}
	r.RequestURI = ""
	r.Header.Del("Proxy-Authorization")
	answer, err := http.DefaultTransport.RoundTrip(r)
	if err != nil {
		w.WriteHeader(http.StatusBadGateway)
		return
	}
	defer answer.Body.Close()
	w.Header().Set("Content-Type", answer.Header.Get("Content-Type"))
	w.WriteHeader(answer.StatusCode)
	io.Copy(w, answer.Body)
}

func (p *proxied) tunnel(w http.ResponseWriter, to string) {
	out, err := net.Dial("tcp", to)
	if err != nil {
		w.WriteHeader(http.StatusBadGateway)
		return
	}
	defer out.Close()
	in, buffered, err := w.(http.Hijacker).Hijack()
	if err != nil {
		return
	}
	defer in.Close()
	io.WriteString(in, "HTTP/1.1 200 Connection established\r\n\r\n")
	var both sync.WaitGroup
	both.Go(func() { io.Copy(out, buffered); out.(*net.TCPConn).CloseWrite() })
	both.Go(func() { io.Copy(in, out); in.Close() })
	both.Wait()
}

// by returns a Proxy function that leads every request through the proxy at u.
func by(u string, user *url.Userinfo) func(*url.URL) (*url.URL, error) {
	return func(*url.URL) (*url.URL, error) {
		at, err := url.Parse(u)
		if err == nil && user != nil {
			at.User = user
		}
		return at, err
	}
}

func TestRequestsThroughAWebProxy(t *testing.T) {
	plain := peertest.NewServer(t, peertest.HTTP, echo)
	secure := peertest.NewServer(t, peertest.HTTP, echo)
	secure.TLS = new(tls.Config)
	forward := "POST " + plain.At().URL + "/mcp?a=b "
	connect := "CONNECT " + strings.TrimPrefix(secure.At().URL, "https://") + " "
	for _, c := range []struct {
		name   string
		server *peertest.Server
		hopTLS bool
		user   *url.Userinfo
		want   string
	}{
		{"http", plain, false, nil, forward},
		{"http with a password", plain, false, url.UserPassword("me", "s3cr3t"), forward + "Basic bWU6czNjcjN0"},
		{"https", secure, false, nil, connect},
		{"https with a password", secure, false, url.UserPassword("me", "s3cr3t"), connect + "Basic bWU6czNjcjN0"},
		{"https by https", secure, true, nil, connect},
		{"http by https", plain, true, nil, forward},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := newProxied(t, c.hopTLS)
			tls := trusting(secure) // whose certificate is also the proxy's
			h := newHTTP(t, HTTPConfig{URL: c.server.URL + "/mcp?a=b", TLS: tls, Proxy: by(p.URL, c.user)})
			for range 2 {
				got, err := said(t.Context(), h.Session("", ""))
				wantMessages(t, got, err, ping)
			}
			h.Close()
			p.mu.Lock()
			defer p.mu.Unlock()
			want := []string{c.want}
			if c.server == plain {
				want = append(want, c.want)
			}
			if strings.Join(p.got, "\n") != strings.Join(want, "\n") {
				t.Errorf("proxy was asked %q, want %q", p.got, want)
			}
		})
	}
}

func TestProxyIsChosenByURL(t *testing.T) {
	s := serve(t, always(jsonReply(answer)))
	h := newHTTP(t, HTTPConfig{URL: s.url(), Proxy: func(u *url.URL) (*url.URL, error) {
		if u.String() != s.url() {
			t.Errorf("asked for %s", u)
		}
		return nil, nil
	}})
	got, err := said(t.Context(), h.Session("", ""))
	wantMessages(t, got, err, answer)
}

func TestProxyThatFails(t *testing.T) {
	peertest.NoLeaks(t)
	for _, c := range []struct{ name, server, reply, want string }{
		{"wants a password", "https", "HTTP/1.1 407 No\r\nProxy-Authenticate: Basic\r\n\r\n", "connect: the web proxy answered 407 Proxy Authentication Required"},
		{"wants one in between", "http", "HTTP/1.1 407 No\r\nProxy-Authenticate: Basic\r\nContent-Length: 0\r\n\r\n", "connect: the web proxy answered 407 Proxy Authentication Required"},
		{"cannot reach it", "https", "HTTP/1.1 502 No\r\nContent-Length: 2\r\n\r\nno", "connect: the web proxy answered 502 Bad Gateway"},
		{"closes", "https", "HTTP/1.1 200", "connect: unexpected EOF"},
		{"is none", "https", "SSH-2.0-s3cr3t\r\n\r\n", "connect: " + errHead.Error()},
		{"has an endless head", "https", "HTTP/1.1 200 OK\r\n" + strings.Repeat("X: s3cr3t\r\n", 10_000), "connect: " + errHead.Error()},
		{"talks on", "https", "HTTP/1.1 200 OK\r\n\r\nhello", "connect: " + errHead.Error()},
		{"hangs", "https", "HTTP/1.1", "connect: no connection within 100ms"},
	} {
		t.Run(c.name, func(t *testing.T) {
			peertest.NoLeaks(t)
			var p *server
			limit := patience
			if c.name == "hangs" {
				p = serveSilent(t, c.reply)
				limit = 100 * time.Millisecond
			} else {
				p = serve(t, once(c.reply))
			}
			h := newHTTP(t, HTTPConfig{
				URL: c.server + "://user.example/mcp", DialTimeout: limit,
				Proxy: by("http://"+p.address, url.UserPassword("me", "s3cr3t")),
			})
			_, err := said(t.Context(), h.Session("", ""))
			var e *Error
			if !errors.As(err, &e) || !strings.HasSuffix(err.Error(), c.want) || strings.Contains(err.Error(), "s3cr3t") {
				t.Errorf("ended with %v, want %s", err, c.want)
			}
			if c.server == "https" && !strings.Contains(err.Error(), "user.example:443 by proxy "+p.address) {
				t.Errorf("error %q", err)
			}
		})
	}
}

func TestProxyWithAnUntrustedCertificate(t *testing.T) {
	p := newProxied(t, true)
	_, err := said(t.Context(), newHTTP(t, HTTPConfig{URL: "http://user.example/mcp", Proxy: by(p.URL, url.UserPassword("me", "s3cr3t"))}).Session("", ""))
	if e, ok := errors.AsType[*Error](err); !ok || e.Op != "tls of the proxy" || strings.Contains(err.Error(), "s3cr3t") || len(p.got) != 0 {
		t.Errorf("ended with %v, the proxy got %q", err, p.got)
	}
}

func TestDialThroughAProxyIsCancelled(t *testing.T) {
	peertest.NoLeaks(t)
	reached := make(chan struct{})
	p := serve(t, func(_ net.Conn, in *bufio.Reader) {
		take(in)
		close(reached)
		in.ReadByte()
	})
	h := newHTTP(t, HTTPConfig{URL: "https://user.example/mcp", Proxy: by("http://"+p.address, nil)})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	go func() { <-reached; cancel() }()
	if _, err := said(ctx, h.Session("", "")); err != context.Canceled {
		t.Errorf("ended with %v", err)
	}
}

func TestBadProxies(t *testing.T) {
	for at, want := range map[string]string{
		"socks5://me:s3cr3t@127.0.0.1:1": `upstream proxy: unexpected scheme "socks5": must be http or https`,
		"http://me:s3cr3t@/":             "upstream proxy: missing host",
		"http://me:s3cr3t@a:b":           "upstream proxy: the proxy in the environment (HTTPS_PROXY or HTTP_PROXY) is not a URL",
	} {
		_, err := NewHTTP(HTTPConfig{URL: "http://user.example/", Proxy: by(at, nil)})
		if err == nil || err.Error() != want {
			t.Errorf("%s: %v, want %s", at, err, want)
		}
	}
}
