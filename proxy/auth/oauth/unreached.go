package oauth

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"

	"github.com/dragoman-proxy/dragoman/proxy/protocol/mcp"
	"github.com/dragoman-proxy/dragoman/proxy/transport/upstream"
)

// unreached returns err, by which net/http has not sent a request to the server, as it is when dragoman itself connects to the server.
func unreached(server *url.URL, err error) error {
	e := &upstream.Error{Op: "connect", Addr: server.Host, Err: err}
	op, _ := errors.AsType[*net.OpError](err)
	switch {
	case op != nil && op.Op == "proxyconnect":
		e.Via, e.Err = "of the environment", op.Err
		if inner, ok := errors.AsType[*net.OpError](op.Err); ok && inner.Addr != nil {
			e.Via = inner.Addr.String()
		}
	case errors.As(err, new(*tls.CertificateVerificationError)), errors.As(err, new(x509.HostnameError)), errors.As(err, new(x509.UnknownAuthorityError)),
		upstream.IsAlert(err), strings.HasPrefix(err.Error(), "tls: "):
		e.Op = "tls"
	case strings.Contains(err.Error(), "server gave HTTP response to HTTPS client"): // of which net/http keeps no more
		e.Op, e.Err = "tls", tls.RecordHeaderError{Msg: "the server has answered in plain HTTP"}
	case op == nil || op.Op != "dial":
		e.Op = "read"
		if errors.Is(err, io.EOF) {
			e.Err, e.Unanswered = io.ErrUnexpectedEOF, true
		}
	}
	return e
}

// maxRefusal is how many bytes of a refusal are read.
const maxRefusal = 4 << 10

// refusalOf returns a response that is no success as dragoman itself gets it from the server.
func refusalOf(resp *http.Response) *upstream.StatusError {
	e := &upstream.StatusError{Code: resp.StatusCode}
	e.Body, _ = io.ReadAll(io.LimitReader(resp.Body, maxRefusal))
	for _, name := range []string{"Content-Type", "WWW-Authenticate"} {
		for _, value := range resp.Header.Values(name) {
			e.Header = append(e.Header, mcp.Header{Name: name, Value: value})
		}
	}
	if to, err := resp.Location(); err == nil && resp.StatusCode >= 300 && resp.StatusCode < 400 {
		e.Target = (&url.URL{Scheme: to.Scheme, Host: to.Host, Path: to.Path}).String()
	}
	return e
}

// wantsLogin reports whether the refusal is one that a sign-in may help against.
func wantsLogin(e *upstream.StatusError) bool {
	return e.Code == http.StatusUnauthorized || e.Code == http.StatusForbidden
}
