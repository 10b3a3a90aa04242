package httpcall

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/dragoman-proxy/dragoman/adapterrt/clean"
	"github.com/dragoman-proxy/dragoman/adapterrt/failure"
	"github.com/dragoman-proxy/dragoman/adapterrt/file"
	"github.com/dragoman-proxy/dragoman/oauthclient"
	"github.com/dragoman-proxy/dragoman/translate/wire"
)

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
	var n [8]byte
	rand.Read(n[:]) // whose bytes a test can make known, unlike those of math/rand
	wait = wait/2 + time.Duration(binary.BigEndian.Uint64(n[:])%uint64(wait/2+1))
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
	switch {
	case o.HasBody:
		body = bytes.NewReader(o.Body.Text)
	case !o.Repeatable && o.Changes && o.Method == "GET":
		// A body that cannot be read again, and is empty: without one, net/http sends a GET again if its connection dies.
		body = io.LimitReader(http.NoBody, 0)
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
		if err := o.Sign(req, o.Body.Text); err != nil {
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
		f := transportFailure(err, t, o, c.opt.NameHosts)
		if o.Changes && wasSent(err, f.Code) {
			f.Details = wire.Members(nil).Str("carried_out", "unknown").End()
		}
		return nil, f
	}
	defer res.Body.Close()
	r, f := c.receive(ctx, cancel, t, o, res)
	if f != nil {
		f.Answered = res.StatusCode
	}
	return r, f
}

// receive reads the body of a response. cancel cancels ctx, the context of the request.
func (c *Client) receive(ctx context.Context, cancel context.CancelCauseFunc, t *file.Target, o *Outgoing, res *http.Response) (*Reply, *failure.Failure) {
	r := &Reply{Status: res.StatusCode, ContentType: res.Header.Get("Content-Type"), Header: res.Header}
	if o.saysNothing(res.StatusCode, res.Header.Get("Location")) {
		if n := res.Header.Get("Content-Length"); res.StatusCode == 204 && n != "" && n != "0" {
			c.CloseIdleConnections() // a body that must not be there would be the next answer
		}
		return r, nil
	}
	limit := c.opt.MaxResponse
	if res.ContentLength > int64(limit) {
		f := failure.TooLarge("response_size", limit, int(res.ContentLength), "bytes")
		f.FromAPI = true
		return nil, f
	}
	answer := io.Reader(res.Body)
	if o.Stream != nil && res.StatusCode < 300 {
		a, end := arrive(o, answer, cancel, c.opt)
		defer end()
		answer = a
	}
	var err error
	r.Body, err = readBody(ctx, c.opt.memory(), answer, res.ContentLength, limit)
	if f := isNoRoom(err); f != nil {
		return nil, f
	}
	if err != nil {
		if context.Cause(ctx) == errIdle {
			err = errIdle
		}
		return nil, transportFailure(err, t, o, c.opt.NameHosts)
	}
	if len(r.Body) > limit {
		f := failure.TooLarge("response_size", limit, len(r.Body), "bytes")
		f.FromAPI = true
		return nil, f
	}
	return r, nil
}

// transportFailure returns the failure that says why there is no response. Its message names the host of the API if names is set, since it
// may be an inner one; the cause names it in any case.
func transportFailure(err error, t *file.Target, o *Outgoing, names bool) *failure.Failure {
	timeout := o.Timeout
	host, port := t.Base.Hostname(), t.Origin[strings.LastIndexByte(t.Origin, ':')+1:]
	cause := oauthclient.WithoutURL(err)
	if !strings.Contains(cause.Error(), host) {
		cause = fmt.Errorf("%s: %w", t.Base.Host, cause)
	}
	f := &failure.Failure{Code: failure.TransportNetwork, Message: "Network error: request failed", Cause: clean.Redact(cause, o.Secrets)}
	unresolved, refused := "the name of the API is not known now. dragoman's operator finds the name in the log", "the API accepts no connections now. Try again later; dragoman's operator finds the address in the log"
	if names {
		unresolved, refused = host, net.JoinHostPort(host, port)
	}
	var dns *net.DNSError
	var netErr net.Error
	switch {
	case errors.Is(err, errIdle):
		f.Code, f.Message = failure.TransportTimeout, "The response stopped: no further data within the time limit"
	case errors.Is(err, errDenied):
		f.Message = "Network error: address not allowed"
	case errors.As(err, &dns) && !errors.Is(err, context.DeadlineExceeded):
		f.Code, f.Message = failure.TransportDNS, "Could not resolve host: "+unresolved
	case errors.Is(err, context.DeadlineExceeded), errors.As(err, &netErr) && netErr.Timeout():
		if !errors.Is(err, context.DeadlineExceeded) {
			timeout = min(timeout, connectTimeout)
		}
		f.Code, f.Message = failure.TransportTimeout, "Request timed out after "+strconv.FormatInt(timeout.Milliseconds(), 10)+"ms"
	case isRefused(err):
		f.Code, f.Message = failure.TransportRefused, "Connection refused: "+refused
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
