package upstream

import (
	"bufio"
	"context"
	"crypto/tls"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"time"

	"github.com/valyala/fasthttp"

	"github.com/dragoman-proxy/dragoman/dial"
	"github.com/dragoman-proxy/dragoman/proxy/bytes/callctx"
	"github.com/dragoman-proxy/dragoman/proxy/bytes/rawio"
)

// Dial opens a connection to an address of host and port, or to a unix socket. A connection that it returns may be a [rawio.Teller];
// without that, a goroutine waits on it. It may have a method Quiet() error, which returns nil if the connection is open and there is nothing to read:
// without that, it is not used again after a second of rest.
type Dial func(ctx context.Context, network, address string) (net.Conn, error)

// dialer opens connections to one server.
type dialer struct {
	network Dial // nil for the system's
	addr    string
	via     *webProxy     // the proxy on the way; nil for none
	tls     *tls.Config   // nil for plain HTTP
	timeout time.Duration // until connected, and then for TLS and the tunnel; not for the search for the name
	watch   *dial.Watch
}

func (d *dialer) dial(ctx context.Context) (*conn, error) {
	own := callctx.Under(ctx) // what is derived from ctx itself would leave something there
	defer own.End(nil)
	next := d.addr
	if d.via != nil {
		next = d.via.addr
	}
	by := dial.Dialer{Timeout: d.timeout, Watch: d.watch, Network: d.network}
	socket, err := by.Open(own, "tcp", next)
	if err != nil {
		return nil, d.failure(ctx, "connect", err)
	}
	socket = rawio.Wrap(socket)
	limited, cancel := context.WithTimeout(own, d.timeout)
	defer cancel()
	under := &gate{Conn: socket}
	nc, op, err := d.reach(limited, under)
	if err != nil {
		socket.Close()
		return nil, d.failure(ctx, op, err)
	}
	if nc == under {
		nc = socket
	}
	c := newConn(nc, socket)
	c.guard.Guard(d.watch, socket)
	if nc != socket {
		c.gate = under
	}
	return c, nil
}

// reach continues the connection from socket to the server. op names the step that
// failed.
func (d *dialer) reach(ctx context.Context, socket net.Conn) (nc net.Conn, op string, err error) {
	nc = socket
	if d.via != nil && d.via.tls != nil {
		over := tls.Client(nc, d.via.tls)
		if err := over.HandshakeContext(ctx); err != nil {
			return nil, "tls of the proxy", err
		}
		nc = over
	}
	if d.tls == nil {
		return nc, "", nil
	}
	if d.via != nil {
		if err := d.via.tunnel(ctx, nc, d.addr); err != nil {
			return nil, "connect", err
		}
	}
	over := tls.Client(nc, d.tls)
	if err := over.HandshakeContext(ctx); err != nil {
		return nil, "tls", err
	}
	return over, "", nil
}

func (d *dialer) failure(ctx context.Context, op string, err error) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	e := &Error{Op: op, Addr: d.addr, Err: err}
	if d.via != nil {
		e.Via = d.via.addr
	}
	if e.Timeout() {
		if end, ok := ctx.Deadline(); ok && !time.Now().Before(end) {
			return context.DeadlineExceeded // package net sees the deadline of ctx before ctx ends
		}
		e.Err = &silence{what: "no connection", after: d.timeout}
	}
	return e
}

// webProxy is an HTTP proxy on the way to a server. It forwards plain HTTP request by
// request, and TLS through a tunnel.
type webProxy struct {
	addr string
	tls  *tls.Config // for the connection to the proxy; nil if that is plain
	auth string      // value of Proxy-Authorization, a secret; "" for none
}

// ProxyError is a refusal by an HTTP proxy on the way to the server.
type ProxyError struct {
	Code int // its status
}

func (e *ProxyError) Error() string {
	return "the web proxy answered " + Status(e.Code)
}

// findProxy returns the proxy on the way to u that find names, or nil if there is none. server is the configuration of
// TLS for the server; nil for none. The errors do not quote the configuration, which may contain a password.
func findProxy(find func(*url.URL) (*url.URL, error), server *tls.Config, u *url.URL) (*webProxy, error) {
	if find == nil {
		return nil, nil
	}
	at, err := find(u)
	if err != nil {
		return nil, errors.New("upstream proxy: the proxy in the environment (HTTPS_PROXY or HTTP_PROXY) is not a URL")
	}
	if at == nil {
		return nil, nil
	}
	p := &webProxy{addr: hostPort(at)}
	switch at.Scheme {
	case "http":
	case "https":
		roots := &tls.Config{MinVersion: tls.VersionTLS12}
		if server != nil {
			roots.RootCAs = server.RootCAs // without the client certificate, which is for the server
		}
		p.tls = tlsConfig(roots, at.Hostname())
	default:
		return nil, fmt.Errorf("upstream proxy: unexpected scheme %.20q: must be http or https", at.Scheme)
	}
	if at.Hostname() == "" {
		return nil, errors.New("upstream proxy: missing host")
	}
	if at.User != nil {
		password, _ := at.User.Password()
		p.auth = "Basic " + base64.StdEncoding.EncodeToString([]byte(at.User.Username()+":"+password))
	}
	return p, nil
}

// authorization returns the header line for the proxy, or "" if there is none.
func (p *webProxy) authorization() string {
	if p.auth == "" {
		return ""
	}
	return "Proxy-Authorization: " + p.auth + "\r\n"
}

// tunnel asks the proxy for a tunnel to addr, after which nc leads there. ctx bounds
// the time of the proxy's answer, and smallHead its size.
//
// See https://www.rfc-editor.org/rfc/rfc9110#name-connect.
func (p *webProxy) tunnel(ctx context.Context, nc net.Conn, addr string) (err error) {
	stop := context.AfterFunc(ctx, func() { nc.Close() })
	defer func() {
		if !stop() {
			err = ctx.Err()
		}
	}()
	head := "CONNECT " + addr + " HTTP/1.1\r\nHost: " + addr + "\r\n" + p.authorization() + "\r\n"
	if _, err := nc.Write([]byte(head)); err != nil {
		return err
	}
	in := bufio.NewReaderSize(nc, smallHead)
	var answer fasthttp.ResponseHeader
	switch err := answer.Read(in); {
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return io.ErrUnexpectedEOF
	case err != nil:
		if failed, ok := errors.AsType[net.Error](err); ok {
			return failed
		}
		return errHead // without err, which quotes the head
	}
	if code := answer.StatusCode(); code < 200 || code > 299 {
		return &ProxyError{Code: code}
	}
	if in.Buffered() > 0 {
		return errHead // bytes that no request has asked for
	}
	return nil
}
