package upstream

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"testing"
	"testing/synctest"
	"time"
)

// telling is a connection in memory that says by itself whether it is quiet.
type telling struct {
	net.Conn
	noise error
}

func (c *telling) Quiet() error { return c.noise }

// TestAConnectionSaysThatItIsQuiet: it is used again however long it has rested, unless it is not quiet. Without Quiet, a second of rest
// is too long.
func TestAConnectionSaysThatItIsQuiet(t *testing.T) {
	for _, c := range []struct {
		name  string
		tells bool
		noise error
		dials int
	}{{"quiet", true, nil, 1}, {"not quiet", true, io.ErrUnexpectedEOF, 2}, {"does not say", false, nil, 2}} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				dials, last := 0, new(telling)
				h, err := NewHTTP(HTTPConfig{URL: "http://server.example:1234/mcp", Dial: func(_ context.Context, network, address string) (net.Conn, error) {
					if network != "tcp" || address != "server.example:1234" {
						return nil, errors.New(network + " " + address)
					}
					dials++
					ours, theirs := net.Pipe()
					go func() {
						for in := bufio.NewReader(theirs); ; {
							if _, ok := take(in); !ok {
								return
							}
							io.WriteString(theirs, "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}")
						}
					}()
					last = &telling{Conn: ours}
					if c.tells {
						return last, nil
					}
					return ours, nil
				}})
				if err != nil {
					t.Fatal(err)
				}
				for range 2 {
					if _, err := said(t.Context(), h.Session("", "")); err != io.EOF && err != nil {
						t.Fatal(err)
					}
					time.Sleep(30 * time.Second)
					last.noise = c.noise
				}
				if dials != c.dials {
					t.Errorf("%d connections, want %d", dials, c.dials)
				}
				h.Close()
			})
		})
	}
}
