package origin

import (
	"crypto/tls"
	"sync/atomic"
	"time"
)

// Certificates says when the certificates of the connections to the server expire.
type Certificates struct {
	client time.Time
	server atomic.Int64 // in seconds since 1970; 0 if no server has shown one
}

// watch returns c, or the default if it is nil, so that w learns the certificates of all connections with it.
func (w *Certificates) watch(c *tls.Config) *tls.Config {
	if c == nil {
		c = &tls.Config{MinVersion: tls.VersionTLS12}
	}
	for _, pair := range c.Certificates {
		w.client = pair.Leaf.NotAfter
	}
	c.VerifyConnection = func(s tls.ConnectionState) error {
		if len(s.PeerCertificates) > 0 {
			w.server.Store(s.PeerCertificates[0].NotAfter.Unix())
		}
		return nil
	}
	return c
}

// Client returns when dragoman's own certificate for the server expires; the zero time if there is none.
func (w *Certificates) Client() time.Time {
	if w == nil {
		return time.Time{}
	}
	return w.client
}

// Server returns when the certificate expires that the server has shown last; the zero time if it has shown none.
func (w *Certificates) Server() (end time.Time) {
	if w != nil && w.server.Load() != 0 {
		end = time.Unix(w.server.Load(), 0)
	}
	return end
}
