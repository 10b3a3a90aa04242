package downstream

import (
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"time"
)

// headEnd finds the end of a request's head in the bytes of a connection, as fasthttp does. fasthttp then needs the head to end in
// CRLF CRLF: if it does not, it waits for these bytes in what follows.
type headEnd struct {
	lines int  // lines before this one, without empty ones before the first
	size  int  // bytes of this line
	cr    bool // the last byte was a CR
	bare  bool // the line before ended in LF alone
	found bool // the end was found
}

// errBareEnd is the error of a head that does not end in CRLF CRLF.
var errBareEnd = errors.New("the head of a request does not end in CRLF CRLF")

// next takes further bytes. It returns errBareEnd if the head ends in them, and not as it should.
func (e *headEnd) next(b []byte) error {
	if e.found {
		return nil
	}
	for _, c := range b {
		if c != '\n' {
			e.size++
			e.cr = c == '\r'
			continue
		}
		crlf := e.cr
		switch empty := e.size == 0 || e.size == 1 && crlf; {
		case !empty:
			e.lines++
			e.bare = !crlf
		case e.lines > 0:
			e.found = true
			if !crlf || e.bare && e.lines > 1 { // without a header, the CRLF of the request line is not needed
				return errBareEnd
			}
			return nil
		}
		e.size, e.cr = 0, false
	}
	return nil
}

// PlainHTTP is what the Log of a configuration is called with when a client sends HTTP without TLS to a listener with TLS.
const PlainHTTP = "plain HTTP"

// plainAnswer is the response to such a client.
const plainAnswer = "HTTP/1.1 400 Bad Request\r\nConnection: close\r\nContent-Type: application/json\r\nContent-Length: 98\r\n\r\n" +
	`{"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"this port speaks TLS: use https://"}}`

// answerPlain answers a client that has sent HTTP where TLS was expected, if that is what err, the error of a Read, says.
func (c *conn) answerPlain(err error) {
	e, ok := errors.AsType[tls.RecordHeaderError](err)
	if !ok || e.Conn == nil || !slices.Contains(plainBeginnings, string(e.RecordHeader[:])) {
		return
	}
	c.cfg.Log(PlainHTTP, fmt.Errorf("a client at %s has sent HTTP without TLS to %s: its URL must begin with https://", c.peer, c.LocalAddr()))
	_ = e.Conn.SetWriteDeadline(time.Now().Add(time.Second))
	if _, err := io.WriteString(e.Conn, plainAnswer); err == nil {
		discard(e.Conn, c.cfg.MaxBody)
	}
}

// TLSAtPlain is what the Log of a configuration is called with when a client begins TLS at a listener without TLS.
const TLSAtPlain = "TLS"

// errTLS is the error of a request that is the beginning of a TLS handshake.
var errTLS = errors.New("a TLS handshake at a port without TLS")

// beginsTLS reports whether the first bytes of a connection are those of a TLS handshake, and notes it.
func (c *conn) beginsTLS(b []byte) bool {
	const handshake, major = 0x16, 0x03
	if len(b) < 3 || b[0] != handshake || b[1] != major || c.cfg.TLS != nil {
		return false
	}
	c.cfg.Log(TLSAtPlain, fmt.Errorf("a client at %s has begun TLS at %s: its URL must begin with http://", c.peer, c.LocalAddr()))
	return true
}

// plainBeginnings are the first bytes of requests, as many as TLS reads first.
var plainBeginnings = []string{"GET /", "POST ", "PUT /", "HEAD ", "DELET", "OPTIO", "PATCH"}

// discard reads for a while what the client still sends, after the response.
func discard(nc net.Conn, maxBody int) {
	const patience = 2 * time.Second
	if half, ok := nc.(interface{ CloseWrite() error }); !ok || half.CloseWrite() != nil {
		return
	}
	if nc.SetReadDeadline(time.Now().Add(patience)) == nil {
		_, _ = io.CopyN(io.Discard, nc, 4*int64(maxBody))
	}
}
