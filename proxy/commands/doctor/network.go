package doctor

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/dragoman-proxy/dragoman/proxy/bytes/unixsocket"
	"github.com/dragoman-proxy/dragoman/proxy/config"
	"github.com/dragoman-proxy/dragoman/proxy/origin"
	"github.com/dragoman-proxy/dragoman/proxy/pipes/failures"
	"github.com/dragoman-proxy/dragoman/proxy/protocol/mcp"
)

const anotherProcess = "another process"

// network follows the way to the server at upstream.url: name, addresses, web proxy, TLS. From here on requests carry the stored login
// for the server, if there is one. The checks before were of what serve sends.
func network(ctx context.Context, e *exam) {
	e.borrowed = origin.BorrowLogin(&e.cfg)
	if e.cfg.Upstream.AtSocket() {
		e.reachSocket(ctx)
		return
	}
	at, err := url.Parse(e.cfg.Upstream.URL)
	if err != nil {
		return // Validate has refused it
	}
	next := at
	via, err := origin.WebProxy(at)
	if err == nil && via != nil {
		next = via
	}
	if !e.reach(ctx, next, at) {
		return
	}
	if at.Scheme == "https" {
		e.secured(ctx, at, via)
	}
}

// reachSocket connects to the unix socket of the server.
func (e *exam) reachSocket(ctx context.Context) {
	path, _, err := unixsocket.Server(e.cfg.Upstream.URL)
	if err != nil {
		return // Validate has refused it
	}
	limited, cancel := context.WithTimeout(ctx, e.CheckTime/2)
	defer cancel()
	conn, err := new(net.Dialer).DialContext(limited, "unix", path)
	switch {
	case err == nil:
		conn.Close()
		e.ok("connects", path)
	case errors.Is(err, fs.ErrPermission):
		e.fail("this user may not connect: "+cause(err), path, "the socket's mode, and those of the folders above it, must let this user write to it")
	case errors.Is(err, syscall.ECONNREFUSED):
		e.fail("nothing listens at this socket", path, "is the server running? its file is left from before")
	case errors.Is(err, fs.ErrNotExist):
		e.fail("there is no such file", path, "is the server running? does it share the volume with dragoman? check the path in the URL (upstream.url)")
	default:
		e.fail("does not connect: "+cause(err), path, failures.Refused.AdviceOn(err, e.cfg.Upstream.URL))
	}
}

// reach resolves the host of a URL, that of the server or of the web proxy before it, and connects to each of its addresses. It
// reports whether one of them answers.
func (e *exam) reach(ctx context.Context, at, server *url.URL) bool {
	do := func(c failures.Cause) string {
		if at == server {
			return c.Advice()
		}
		return "correct the proxy in " + proxyVariable(server.Scheme) + ", or NO_PROXY=" + server.Hostname() + " if the server can be reached without it"
	}
	host, port := at.Hostname(), cmp.Or(at.Port(), map[string]string{"https": "443"}[at.Scheme], "80")
	addrs := []string{host}
	if net.ParseIP(host) == nil {
		var err error
		if addrs, err = net.DefaultResolver.LookupHost(ctx, host); err != nil {
			e.fail("the name "+host+" cannot be resolved: "+cause(err), at.Host, do(failures.DNS))
			return false
		}
		e.ok(host+" is "+strings.Join(addrs, ", "), "DNS")
	}
	failed := make([]error, len(addrs))
	var dialling sync.WaitGroup
	for i, addr := range addrs {
		dialling.Go(func() {
			limited, cancel := context.WithTimeout(ctx, e.CheckTime/2)
			defer cancel()
			conn, err := new(net.Dialer).DialContext(limited, "tcp", net.JoinHostPort(addr, port))
			if err == nil {
				conn.Close()
			}
			failed[i] = err
		})
	}
	dialling.Wait()
	reached := slices.Contains(failed, nil)
	for i, addr := range addrs {
		place := net.JoinHostPort(addr, port)
		switch err := failed[i]; {
		case err == nil:
			e.ok("connects", place)
		case reached:
			e.warn("does not connect: "+cause(err), place, "another address of "+host+" does; dragoman tries them one after the other")
		case errors.Is(err, syscall.ECONNREFUSED):
			e.fail("connection refused", place, do(failures.Refused))
		default:
			e.fail("does not connect: "+cause(err), place, do(failures.ConnectTimeout))
		}
	}
	return reached
}

var errSeen = errors.New("the certificate was read")

// handshake does a TLS handshake with the server at a URL and sends nothing. The certificate is not verified.
func (e *exam) handshake(ctx context.Context, at, via *url.URL) (*tls.ConnectionState, *tls.Config, error) {
	c, err := origin.TLS(e.cfg.Upstream)
	if err != nil {
		return nil, nil, err
	}
	if c == nil {
		c = &tls.Config{MinVersion: tls.VersionTLS12}
	}
	reading := c.Clone()
	reading.InsecureSkipVerify = true //nolint:gosec // so that every mistake in the certificate can be told; nothing is sent
	var state *tls.ConnectionState
	reading.VerifyConnection = func(s tls.ConnectionState) error {
		state = &s
		return errSeen
	}
	by := &http.Transport{DialContext: e.world.Dial, TLSClientConfig: reading, Proxy: http.ProxyURL(via), DisableKeepAlives: true}
	defer by.CloseIdleConnections()
	req, err := http.NewRequestWithContext(ctx, http.MethodHead, (&url.URL{Scheme: "https", Host: at.Host, Path: "/"}).String(), nil)
	if err != nil {
		return nil, nil, err
	}
	req.Header.Set("User-Agent", mcp.UserAgent())
	resp, err := by.RoundTrip(req)
	if err == nil {
		resp.Body.Close()
	}
	if state != nil {
		err = nil
	}
	return state, c, err
}

// secured checks TLS and the server's certificate.
func (e *exam) secured(ctx context.Context, at, via *url.URL) {
	state, c, err := e.handshake(ctx, at, via)
	switch {
	case err == nil:
	case isPlainHTTP(err):
		e.fail("the server answers in plain HTTP, not TLS", at.Host, "use "+withScheme(at, "http")+" (upstream.url)")
		return
	case via != nil:
		e.fail("the proxy does not connect to "+at.Host+": "+cause(err), config.SafeURL(via.String()), "NO_PROXY="+at.Hostname()+" if the server can be reached without it")
		return
	default:
		e.fail("the TLS handshake fails: "+cause(err), at.Host, failures.TLSRefused.Advice())
		return
	}
	if e.cfg.Upstream.Unverified() {
		return // which is said of the configuration
	}
	leaf, host := state.PeerCertificates[0], at.Hostname()
	good := e.dates(leaf, "TLS certificate", at.Host, failures.TLSExpired.Advice())
	if err := leaf.VerifyHostname(host); err != nil {
		good = false
		e.fail("the certificate is for "+namesOf(leaf)+", not for "+host, at.Host, failures.TLSName.Advice())
	}
	options := x509.VerifyOptions{Roots: c.RootCAs, Intermediates: x509.NewCertPool(), CurrentTime: middle(leaf)}
	for _, link := range state.PeerCertificates[1:] {
		options.Intermediates.AddCert(link)
	}
	if _, err := leaf.Verify(options); err != nil {
		good = false
		what := "the certificate is signed by " + leaf.Issuer.String() + ", which this machine does not trust"
		switch {
		case leaf.Issuer.String() == leaf.Subject.String():
			what = "the certificate is signed by itself"
		case len(state.PeerCertificates) == 1:
			what += "; the server sent no intermediate certificate"
		}
		e.fail(what, at.Host, failures.TLSUnknownCA.Advice())
	}
	if good {
		e.ok(fmt.Sprintf("%s, certificate signed by %s", tls.VersionName(state.Version), leaf.Issuer.String()), at.Host)
	}
}

// middle returns a time at which a certificate is valid, so that its dates, which were checked, do not hide another mistake.
func middle(c *x509.Certificate) time.Time {
	if now := time.Now(); now.After(c.NotBefore) && now.Before(c.NotAfter) {
		return now
	}
	return c.NotBefore.Add(c.NotAfter.Sub(c.NotBefore) / 2)
}

// withScheme returns a URL with another scheme.
func withScheme(at *url.URL, scheme string) string {
	other := *at
	other.Scheme = scheme
	return config.SafeURL(other.String())
}

// cause returns the innermost text of an error of the network, without dragoman's own address.
func cause(err error) string {
	if op, ok := errors.AsType[*net.OpError](err); ok {
		err = op.Err
	}
	if dns, ok := errors.AsType[*net.DNSError](err); ok {
		return dns.Err
	}
	if file, ok := errors.AsType[*fs.PathError](err); ok {
		return file.Err.Error()
	}
	if call, ok := errors.AsType[*os.SyscallError](err); ok {
		err = call.Err
	}
	if errors.Is(err, context.DeadlineExceeded) || errors.Is(err, os.ErrDeadlineExceeded) {
		return "no answer in time"
	}
	return err.Error()
}

// isA reports whether err is, or wraps, an error of this type.
func isA[E error](err error) bool {
	_, is := errors.AsType[E](err)
	return is
}

// isPlainHTTP reports whether a TLS handshake has failed because the peer speaks plain HTTP.
func isPlainHTTP(err error) bool {
	return isA[tls.RecordHeaderError](err) || strings.Contains(err.Error(), "HTTP response to HTTPS client")
}

// dates writes a line with the names and the end of a certificate, and reports whether the certificate is valid now.
func (e *exam) dates(c *x509.Certificate, what, where, do string) bool {
	now := time.Now()
	whose := what + " for " + namesOf(c)
	switch {
	case now.After(c.NotAfter):
		e.fail(fmt.Sprintf("%s ended on %s", whose, c.NotAfter.Format(time.DateOnly)), where, do)
		return false
	case now.Before(c.NotBefore):
		e.fail(fmt.Sprintf("%s is valid only from %s on; this machine's clock says %s", whose, c.NotBefore.Format(time.DateOnly), now.Format(time.DateOnly)), where, "correct the clock of this machine, or wait")
		return false
	case now.Add(endsSoon).After(c.NotAfter):
		e.warn(fmt.Sprintf("%s ends on %s", whose, c.NotAfter.Format(time.DateOnly)), where, do)
	default:
		e.ok(fmt.Sprintf("%s, valid until %s", whose, c.NotAfter.Format(time.DateOnly)), where)
	}
	return true
}

// endsSoon is how long before its end a certificate is worth a warning.
const endsSoon = 14 * 24 * time.Hour
