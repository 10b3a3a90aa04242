package unpack

import (
	"errors"
	"io"
	"net/http"
	"strings"
	"sync/atomic"

	"github.com/dragoman-proxy/dragoman/proxy/protocol/mcp"
)

// Transport decodes the responses that a RoundTripper has left compressed, which no request has asked for, and says in requests that
// dragoman sends them, unless they say otherwise. It is for small documents: what all decoders take at one time is bounded.
type Transport struct{ http.RoundTripper }

// RoundTrip implements [http.RoundTripper]. A response in several codings, or in one that is not known, stays as it is.
func (t Transport) RoundTrip(r *http.Request) (*http.Response, error) {
	if _, said := r.Header["User-Agent"]; !said {
		r = r.Clone(r.Context()) // a RoundTripper must not change the request
		r.Header.Set("User-Agent", mcp.UserAgent())
	}
	res, err := t.RoundTripper.RoundTrip(r)
	if err != nil || r.Method == http.MethodHead || res.Body == http.NoBody {
		return res, err
	}
	coding, unknown := Of([]byte(strings.Join(res.Header.Values("Content-Encoding"), ",")))
	if unknown != nil || coding == Identity {
		return res, nil
	}
	res.Header.Del("Content-Encoding")
	res.Header.Del("Content-Length")
	res.ContentLength, res.Uncompressed = -1, true
	res.Body = &decodedBody{NewReader(res.Body, coding, documents{}), res.Body}
	return res, nil
}

// CloseIdleConnections closes those of the RoundTripper.
func (t Transport) CloseIdleConnections() {
	if c, ok := t.RoundTripper.(interface{ CloseIdleConnections() }); ok {
		c.CloseIdleConnections()
	}
}

// decodedBody is a body that is decoded.
type decodedBody struct {
	*Reader
	body io.Closer
}

func (d *decodedBody) Close() error {
	d.Reader.Close()
	return d.body.Close()
}

// documents bounds what the decoders of all Transports take together.
type documents struct{}

const maxDocuments = 64 << 20

var (
	inDocuments atomic.Int64
	errBusy     = errors.New("too many compressed documents at one time")
)

func (documents) Hold(n int) error {
	if inDocuments.Add(int64(n)) > maxDocuments {
		inDocuments.Add(int64(-n))
		return errBusy
	}
	return nil
}

func (documents) Drop(n int) { inDocuments.Add(int64(-n)) }
