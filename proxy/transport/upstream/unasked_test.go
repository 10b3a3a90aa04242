package upstream

import (
	"bufio"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

// TestBytesBehindAnAnswerAreNotTheNextOne: a body that is longer than its Content-Length, or an answer that no request has asked
// for, ends the connection, however much of it is read ahead where: by the connection's buffer, by TLS, or by the system.
func TestBytesBehindAnAnswerAreNotTheNextOne(t *testing.T) {
	cert := httptest.NewTLSServer(nil)
	defer cert.Close()
	roots := x509.NewCertPool()
	roots.AddCert(cert.Certificate())
	for _, secure := range []bool{false, true} {
		for _, size := range []int{2, 4 << 10, 9 << 10, 14 << 10, 70 << 10} {
			for _, extra := range []string{"}", "\r\n", jsonReply(`"not asked for"`)} {
				t.Run(fmt.Sprintf("TLS %v, %d bytes, %.8q", secure, size, extra), func(t *testing.T) {
					reply := jsonReply(`"` + strings.Repeat("x", size-2) + `"`)
					srv := serve(t, func(c net.Conn, in *bufio.Reader) {
						if secure {
							over := tls.Server(c, &tls.Config{Certificates: cert.TLS.Certificates, DynamicRecordSizingDisabled: true})
							defer over.Close()
							c, in = over, bufio.NewReader(over)
						}
						always(reply+extra)(c, in)
					})
					config := HTTPConfig{URL: srv.url()}
					if secure {
						config.URL, config.TLS = "https"+strings.TrimPrefix(srv.url(), "http"), &tls.Config{RootCAs: roots}
					}
					s := newHTTP(t, config).Session("", "")
					for i := range 4 {
						if got, err := said(t.Context(), s); err != io.EOF || len(got) != 1 || len(got[0]) != size {
							t.Errorf("call %d got %.80q, %v", i, got, err)
						}
					}
				})
			}
		}
	}
}

// TestKeepAliveOfTheLastAnswerCounts: how long the server keeps an idle connection is what its last answer there says, even if the
// head of that is known.
func TestKeepAliveOfTheLastAnswerCounts(t *testing.T) {
	replies := []string{
		jsonHead + "Keep-Alive: timeout=5\r\nContent-Length: 2\r\n\r\n{}",
		"HTTP/1.1 202 Accepted\r\nKeep-Alive: timeout=20\r\nContent-Length: 0\r\n\r\n",
	}
	h := newHTTP(t, HTTPConfig{URL: serve(t, func(c net.Conn, in *bufio.Reader) {
		for i := 0; ; i++ {
			if _, ok := take(in); !ok {
				return
			}
			_, _ = io.WriteString(c, replies[i%2])
		}
	}).url()})
	s := h.Session("", "")
	for i := range 4 {
		if i%2 == 0 {
			if _, err := said(t.Context(), s); err != io.EOF {
				t.Fatal(err)
			}
		} else if _, err := s.Send(t.Context(), &Outgoing{Body: []byte(`{"jsonrpc":"2.0","method":"a"}`)}); err != nil {
			t.Fatal(err)
		}
		c := h.pool.pop()
		if c == nil {
			t.Fatalf("message %d: the connection was not kept", i)
		}
		if want := [...]time.Duration{5 * time.Second, 20 * time.Second}[i%2]; c.keep != want {
			t.Errorf("message %d: the server keeps the connection for %v, want %v", i, c.keep, want)
		}
		h.pool.put(c)
	}
}
