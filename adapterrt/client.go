package adapterrt

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/dragoman-proxy/dragoman/adapterrt/clean"
	"github.com/dragoman-proxy/dragoman/adapterrt/failure"
	"github.com/dragoman-proxy/dragoman/adapterrt/file"
)

const (
	connectTimeout    = 5 * time.Second
	idlePerHost       = 64
	idleTimeout       = 90 * time.Second
	maxResponseHeader = 256 << 10
	maxHops           = 3
	maxTrace          = 8 << 10 // bytes of a header that a trace has
)

// client is an adapter's pool of connections.
type client struct {
	http.Client
	retired atomic.Bool
}

// retire lets idle connections go, now and after each call that is still running.
func (c *client) retire() {
	c.retired.Store(true)
	c.CloseIdleConnections()
}

func newClient(opt *Options, m *file.Mutual) *client {
	dialer := &net.Dialer{
		Timeout: connectTimeout,
		// The address is checked when it is dialled: a name that resolved well
		// a moment ago may not do so now.
		ControlContext: func(_ context.Context, _, address string, _ syscall.RawConn) error {
			a, err := netip.ParseAddrPort(address)
			if err != nil || !allowedAddress(a.Addr(), opt.PublicOnly) {
				return errDenied
			}
			return nil
		},
	}
	t := &http.Transport{
		Proxy:                  opt.Proxy,
		DialContext:            dialer.DialContext,
		ForceAttemptHTTP2:      true,
		TLSHandshakeTimeout:    connectTimeout,
		TLSClientConfig:        &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: opt.RootCAs},
		MaxIdleConnsPerHost:    idlePerHost,
		IdleConnTimeout:        idleTimeout,
		MaxResponseHeaderBytes: maxResponseHeader,
	}
	if m != nil {
		present(m, t.TLSClientConfig)
	}
	return &client{Client: http.Client{Transport: t, CheckRedirect: func(next *http.Request, via []*http.Request) error {
		first := via[0]
		if opt.SameOriginRedirects && first.Method == "GET" && len(via) <= maxHops &&
			next.URL.Scheme == "https" && next.URL.User == nil && file.OriginOf(next.URL) == file.OriginOf(first.URL) {
			return nil
		}
		return http.ErrUseLastResponse
	}}}
}

var errDenied = errors.New("address not allowed")

var deniedAddresses = []netip.Addr{
	netip.MustParseAddr("fd00:ec2::254"), // metadata services
	netip.MustParseAddr("100.100.100.200"),
	netip.MustParseAddr("168.63.129.16"),
	netip.MustParseAddr("192.0.0.192"),
	netip.MustParseAddr("255.255.255.255"),
}

var (
	carrierNAT  = netip.MustParsePrefix("100.64.0.0/10")
	thisNetwork = netip.MustParsePrefix("0.0.0.0/8")
	nat64       = netip.MustParsePrefix("64:ff9b::/96")
	sixToFour   = netip.MustParsePrefix("2002::/16")
)

// notPublic are reached over no public network, beside those that netip knows of:
// https://www.iana.org/assignments/iana-ipv4-special-registry
var notPublic = []netip.Prefix{
	carrierNAT,
	netip.MustParsePrefix("192.0.0.0/24"),
	netip.MustParsePrefix("198.18.0.0/15"),
	netip.MustParsePrefix("240.0.0.0/4"),
	netip.MustParsePrefix("fec0::/10"),
}

// allowedAddress says which addresses a sidecar may call: never those of the link
// and of metadata services, and with publicOnly none that are private.
func allowedAddress(a netip.Addr, publicOnly bool) bool {
	a = a.Unmap().WithZone("")
	if a.Is6() {
		b := a.As16()
		if nat64.Contains(a) && !allowedAddress(netip.AddrFrom4([4]byte(b[12:16])), publicOnly) {
			return false
		}
		if sixToFour.Contains(a) && !allowedAddress(netip.AddrFrom4([4]byte(b[2:6])), publicOnly) {
			return false
		}
	}
	for _, d := range deniedAddresses {
		if a == d {
			return false
		}
	}
	if !a.IsValid() || a.IsUnspecified() || thisNetwork.Contains(a) || a.IsMulticast() || a.IsLinkLocalUnicast() {
		return false
	}
	return !publicOnly || !a.IsPrivate() && !a.IsLoopback() &&
		!slices.ContainsFunc(notPublic, func(p netip.Prefix) bool { return p.Contains(a) })
}

// reply is the HTTP response to an outgoing request.
type reply struct {
	status      int
	contentType string
	header      http.Header
	body        []byte // whoever gets the reply owns it
}

// exchange sends o and reads what comes back. A failure without a reply is of the
// transport; cancelled calls fail with errCancelled for a cause.
func (rt *Runtime) exchange(ctx context.Context, a *adapter, o *outgoing) (*reply, *failure.Failure) {
	bounded, stop := context.WithTimeout(ctx, o.timeout)
	defer stop()
	for attempt := 0; ; attempt++ {
		r, f := rt.attempt(bounded, a, o)
		if ctx.Err() != nil {
			return nil, &failure.Failure{Code: failure.TransportTimeout, Message: "Request cancelled", Cause: failure.ErrCancelled}
		}
		if !o.repeatable || attempt >= a.Target.Retries {
			return r, f
		}
		wait, again := rt.again(r, f, attempt, a.Target.Delay)
		if !again {
			return r, f
		}
		if end, ok := bounded.Deadline(); ok && time.Until(end) <= wait {
			return r, f
		}
		t := time.NewTimer(wait)
		select {
		case <-t.C:
		case <-bounded.Done():
			t.Stop()
			return r, f
		}
	}
}

// The longest wait that an API may ask for before one more attempt.
const longestRetryAfter = 10 * time.Second

// again says whether an attempt is worth repeating and after how long.
func (rt *Runtime) again(r *reply, f *failure.Failure, attempt int, delay time.Duration) (time.Duration, bool) {
	wait := delay << min(attempt, 10)
	wait = wait/2 + rand.N(wait/2+1)
	if f != nil {
		return wait, f.Code == failure.TransportRefused || f.Code == failure.TransportDNS
	}
	switch r.status {
	case 502, 503, 504:
		return wait, true
	case 429:
		after, ok := retryAfter(r.header, rt.opt.Now())
		return max(after, 0), ok && after <= longestRetryAfter
	}
	return 0, false
}

func (rt *Runtime) attempt(ctx context.Context, a *adapter, o *outgoing) (*reply, *failure.Failure) {
	u, err := parsedURL(&a.Target, o.url.buf)
	if err != nil {
		return nil, failure.Ours("", clean.Redact(err, o.secrets))
	}
	var body io.Reader = http.NoBody
	if o.hasBody {
		body = bytes.NewReader(o.body.buf)
	}
	req, err := http.NewRequestWithContext(ctx, o.method, "", body)
	if err != nil {
		return nil, failure.Ours("", clean.Redact(err, o.secrets))
	}
	req.URL, req.Host = u, u.Host
	req.Header.Set("Accept", "application/json")
	req.Header.Set("User-Agent", rt.opt.UserAgent)
	if o.hasBody {
		req.Header.Set("Content-Type", o.contentType)
	}
	if o.id != "" {
		req.Header.Set("X-Request-Id", o.id)
	}
	for _, h := range o.trace {
		if isTraceHeader(h.Name) && len(h.Value) <= maxTrace && file.IsHeaderValue(h.Value) {
			req.Header.Add(h.Name, h.Value)
		}
	}
	for _, h := range a.Target.Headers {
		req.Header.Set(h.Name, h.Value)
	}
	for _, h := range o.headers {
		req.Header.Set(h.Name, h.Value)
	}
	defer func() {
		if a.client.retired.Load() {
			a.client.CloseIdleConnections()
		}
	}()
	res, err := a.client.Do(req)
	if err != nil {
		return nil, transportFailure(err, a, o)
	}
	defer res.Body.Close()
	limit := rt.opt.MaxResponseBytes
	if res.ContentLength > int64(limit) {
		f := failure.TooLarge("response_size", limit, int(res.ContentLength), "bytes")
		f.FromAPI = true
		return nil, f
	}
	r := &reply{status: res.StatusCode, contentType: res.Header.Get("Content-Type"), header: res.Header}
	r.body, err = readBody(res.Body, res.ContentLength, limit)
	if err != nil {
		return nil, transportFailure(err, a, o)
	}
	if len(r.body) > limit {
		f := failure.TooLarge("response_size", limit, len(r.body), "bytes")
		f.FromAPI = true
		return nil, f
	}
	return r, nil
}

// readBody reads up to one byte more than limit. size is what was announced, -1
// for unknown; the limit is on what comes out of the decompressor.
func readBody(r io.Reader, size int64, limit int) ([]byte, error) {
	r = io.LimitReader(r, int64(limit)+1)
	if size < 0 {
		size = 4096
	}
	buf := make([]byte, 0, size+1) // one more, so that the end is seen without growing
	for {
		if len(buf) == cap(buf) {
			buf = append(buf, 0)[:len(buf)]
		}
		n, err := r.Read(buf[len(buf):cap(buf)])
		buf = buf[:len(buf)+n]
		if err == io.EOF {
			return buf, nil
		}
		if err != nil {
			return nil, err
		}
	}
}

// transportFailure puts into words why no response came. It names the host of the
// adapter and nothing of what lies behind.
func transportFailure(err error, a *adapter, o *outgoing) *failure.Failure {
	timeout := o.timeout
	f := &failure.Failure{Code: failure.TransportNetwork, Message: "Network error: request failed", Cause: clean.Redact(withoutURL(err), o.secrets)}
	host, port := a.Target.Base.Hostname(), a.Target.Origin[strings.LastIndexByte(a.Target.Origin, ':')+1:]
	var dns *net.DNSError
	var netErr net.Error
	switch {
	case errors.Is(err, errDenied):
		f.Message = "Network error: address not allowed"
	case errors.As(err, &dns) && !errors.Is(err, context.DeadlineExceeded):
		f.Code, f.Message = failure.TransportDNS, "Could not resolve host: "+host
	case errors.Is(err, context.DeadlineExceeded), errors.As(err, &netErr) && netErr.Timeout():
		if !errors.Is(err, context.DeadlineExceeded) {
			timeout = min(timeout, connectTimeout)
		}
		f.Code, f.Message = failure.TransportTimeout, "Request timed out after "+itoa(timeout.Milliseconds())+"ms"
	case isRefused(err):
		f.Code, f.Message = failure.TransportRefused, "Connection refused: "+net.JoinHostPort(host, port)
	case tlsProblem(err) != "":
		f.Code, f.Message = failure.TransportTLS, "TLS error: "+tlsProblem(err)
	case errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, io.EOF):
		f.Message = "Network error: response ended early"
	case errors.Is(err, syscall.ECONNRESET), errors.Is(err, syscall.EPIPE):
		f.Message = "Network error: connection reset"
	case strings.Contains(err.Error(), "malformed HTTP"), strings.Contains(err.Error(), "gzip: "):
		f.Message = "Network error: malformed response"
	}
	return f
}
