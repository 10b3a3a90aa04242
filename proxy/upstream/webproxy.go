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
	"net/http"
	"net/url"

	"github.com/valyala/fasthttp"
)

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
	return fmt.Sprintf("the web proxy answered %d %s", e.Code, http.StatusText(e.Code))
}

// findProxy returns the proxy on the way to u, or nil if there is none. Its errors do
// not quote the configuration, which may contain a password.
func findProxy(c HTTPConfig, u *url.URL) (*webProxy, error) {
	if c.Proxy == nil {
		return nil, nil
	}
	at, err := c.Proxy(u)
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
		if c.TLS != nil {
			roots.RootCAs = c.TLS.RootCAs // without the client certificate, which is for the server
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
