package httpcall

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/netip"
	"net/url"
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
	maxTrace          = 8 << 10 // bytes of a trace header
)

// Options are the operator's choices on how APIs are called.
type Options struct {
	UserAgent           string
	MaxResponse         int // bytes of a body
	Now                 func() time.Time
	Idle                time.Duration                         // longest pause between parts of a streamed answer, 0 for 30 s
	PublicOnly          bool                                  // no private and loopback addresses
	SameOriginRedirects bool                                  // follow a GET's redirects within its origin
	Proxy               func(*http.Request) (*url.URL, error) // nil for none; addresses behind a proxy are not checked
	RootCAs             *x509.CertPool                        // nil for the system's
	Configure           func(*tls.Config)                     // sets the adapter's own TLS options; may be nil
}

// Client is an adapter's pool of connections.
type Client struct {
	http.Client
	opt     Options
	retired atomic.Bool
}

// Retire closes idle connections, now and after each call that is still running.
func (c *Client) Retire() {
	c.retired.Store(true)
	c.CloseIdleConnections()
}

// NewClient returns a client for one adapter.
func NewClient(opt Options) *Client {
	dialer := &net.Dialer{
		Timeout: connectTimeout,
		// The address is checked when it is dialled, because a name that resolved to an
		// allowed address before may now resolve to another one.
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
	if opt.Configure != nil {
		opt.Configure(t.TLSClientConfig)
	}
	// follow decides about redirects, and sends no credential to another host.
	stay := func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return &Client{opt: opt, Client: http.Client{Transport: t, CheckRedirect: stay}}
}

var errDenied = errors.New("address not allowed")

// IsDenied reports whether a request failed because its address is not allowed.
func IsDenied(err error) bool { return errors.Is(err, errDenied) }

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

// notPublic are addresses that are not on the public internet, in addition to those that netip
// recognizes:
// https://www.iana.org/assignments/iana-ipv4-special-registry
var notPublic = []netip.Prefix{
	carrierNAT,
	netip.MustParsePrefix("192.0.0.0/24"),
	netip.MustParsePrefix("198.18.0.0/15"),
	netip.MustParsePrefix("240.0.0.0/4"),
	netip.MustParsePrefix("fec0::/10"),
}

// allowedAddress reports whether a sidecar may call an address. It may never call link-local
// addresses and metadata services. With publicOnly, it may not call private addresses either.
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
	if slices.Contains(deniedAddresses, a) {
		return false
	}
	if !a.IsValid() || a.IsUnspecified() || thisNetwork.Contains(a) || a.IsMulticast() || a.IsLinkLocalUnicast() {
		return false
	}
	return !publicOnly || !a.IsPrivate() && !a.IsLoopback() &&
		!slices.ContainsFunc(notPublic, func(p netip.Prefix) bool { return p.Contains(a) })
}

// Reply is the HTTP response to an outgoing request.
type Reply struct {
	Status      int
	ContentType string
	Header      http.Header
	Body        []byte // the receiver of the reply owns it
}

// Clone returns a copy of the reply with a body of its own.
func (r *Reply) Clone() *Reply {
	c := *r
	c.Body = bytes.Clone(r.Body)
	return &c
}

// Exchange sends o and returns the reply, whatever its status is. It returns a failure if no
// complete reply arrives or the reply is too large. The failure of a cancelled call has the
// cause [failure.ErrCancelled].
func (c *Client) Exchange(ctx context.Context, t *file.Target, o *Outgoing) (*Reply, *failure.Failure) {
	bounded, stop := context.WithTimeout(ctx, o.Timeout)
	defer stop()
	for attempt := 0; ; attempt++ {
		r, f := c.attempt(bounded, t, o)
		if ctx.Err() != nil {
			return nil, &failure.Failure{Code: failure.TransportTimeout, Message: "Request cancelled", Cause: failure.ErrCancelled}
		}
		if !o.Repeatable || attempt >= t.Retries {
			return r, f
		}
		wait, again := c.again(r, f, attempt, t.Delay)
		if !again {
			return r, f
		}
		if end, ok := bounded.Deadline(); ok && time.Until(end) <= wait {
			return r, f
		}
		timer := time.NewTimer(wait)
		select {
		case <-timer.C:
		case <-bounded.Done():
			timer.Stop()
			return r, f
		}
	}
}

// longestRetryAfter is the longest Retry-After for which an attempt is repeated.
const longestRetryAfter = 10 * time.Second

// again reports whether an attempt should be repeated, and after how long.
func (c *Client) again(r *Reply, f *failure.Failure, attempt int, delay time.Duration) (time.Duration, bool) {
	wait := delay << min(attempt, 10)
	wait = wait/2 + rand.N(wait/2+1)
	if f != nil {
		return wait, f.Code == failure.TransportRefused || f.Code == failure.TransportDNS
	}
	switch r.Status {
	case 502, 503, 504:
		after, _ := RetryAfter(r.Header, c.opt.Now())
		return max(wait, after), after <= longestRetryAfter
	case 429:
		after, ok := RetryAfter(r.Header, c.opt.Now())
		return max(after, 0), ok && after <= longestRetryAfter
	}
	return 0, false
}

func (c *Client) attempt(ctx context.Context, t *file.Target, o *Outgoing) (*Reply, *failure.Failure) {
	u, err := ParsedURL(t, o.URL.Text)
	if err != nil {
		return nil, failure.Ours("", clean.Redact(err, o.Secrets))
	}
	var body io.Reader = http.NoBody
	if o.HasBody {
		body = bytes.NewReader(o.Body.Text)
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	req, err := http.NewRequestWithContext(ctx, o.Method, "", body)
	if err != nil {
		return nil, failure.Ours("", clean.Redact(err, o.Secrets))
	}
	req.URL, req.Host = u, u.Host
	req.Header.Set("Accept", "application/json")
	req.Header.Set("User-Agent", c.opt.UserAgent)
	if o.HasBody {
		req.Header.Set("Content-Type", o.ContentType)
	}
	if o.ID != "" {
		req.Header.Set("X-Request-Id", o.ID)
	}
	for _, h := range o.Trace {
		if isTraceHeader(h.Name) && len(h.Value) <= maxTrace && file.IsHeaderValue(h.Value) {
			req.Header.Add(h.Name, h.Value)
		}
	}
	for _, h := range t.Headers {
		req.Header.Set(h.Name, h.Value)
	}
	for _, h := range o.Headers {
		req.Header.Set(h.Name, h.Value)
	}
	if o.Sign != nil {
		if err := o.sign(req); err != nil {
			return nil, failure.Ours("", clean.Redact(err, o.Secrets))
		}
	}
	defer func() {
		if c.retired.Load() {
			c.CloseIdleConnections()
		}
	}()
	res, err := c.Do(req)
	for hops := 0; err == nil && hops < maxHops; hops++ {
		next := c.follow(t, req, res)
		if next == nil {
			break
		}
		res.Body.Close()
		if req = next; o.Sign != nil && req.Header.Get("Authorization") != "" { // else it goes to another origin
			if err = o.Sign(req, nil); err != nil {
				break
			}
		}
		res, err = c.Do(req)
	}
	if err != nil {
		return nil, transportFailure(err, t, o)
	}
	defer res.Body.Close()
	limit := c.opt.MaxResponse
	if res.ContentLength > int64(limit) {
		f := failure.TooLarge("response_size", limit, int(res.ContentLength), "bytes")
		f.FromAPI = true
		return nil, f
	}
	r := &Reply{Status: res.StatusCode, ContentType: res.Header.Get("Content-Type"), Header: res.Header}
	answer := io.Reader(res.Body)
	if o.Stream != nil && res.StatusCode < 300 {
		a, end := arrive(o, answer, cancel, c.opt)
		defer end()
		answer = a
	}
	r.Body, err = ReadBody(answer, res.ContentLength, limit)
	if err != nil {
		if context.Cause(ctx) == errIdle {
			err = errIdle
		}
		return nil, transportFailure(err, t, o)
	}
	if len(r.Body) > limit {
		f := failure.TooLarge("response_size", limit, len(r.Body), "bytes")
		f.FromAPI = true
		return nil, f
	}
	return r, nil
}

// sign adds the signature to req, which o became.
func (o *Outgoing) sign(req *http.Request) error {
	if !o.HasBody {
		return o.Sign(req, nil)
	}
	return o.Sign(req, o.Body.Text)
}

// ReadBody reads a body into a new slice. It reads up to one byte more than limit, so that the
// caller can see that the body is too large. size is the announced size in bytes, -1 if it is
// unknown. limit is in bytes and applies to the decompressed body.
func ReadBody(r io.Reader, size int64, limit int) ([]byte, error) {
	r = io.LimitReader(r, int64(limit)+1)
	if size < 0 {
		size = 4096
	}
	buf := make([]byte, 0, size+1) // one more byte, to read the end without growing
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

// transportFailure returns the failure that says why there is no response. Its message names
// the host of the adapter and nothing behind that host.
func transportFailure(err error, t *file.Target, o *Outgoing) *failure.Failure {
	timeout := o.Timeout
	f := &failure.Failure{Code: failure.TransportNetwork, Message: "Network error: request failed", Cause: clean.Redact(WithoutURL(err), o.Secrets)}
	host, port := t.Base.Hostname(), t.Origin[strings.LastIndexByte(t.Origin, ':')+1:]
	var dns *net.DNSError
	var netErr net.Error
	switch {
	case errors.Is(err, errIdle):
		f.Code, f.Message = failure.TransportTimeout, "The response stopped: no further data within the time limit"
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
