package upstream

import (
	"context"
	"crypto/tls"
	"net"
	"time"

	"github.com/dragoman-proxy/dragoman/proxy/rawio"
)

// dialer opens connections to one server.
type dialer struct {
	addr    string
	via     *webProxy   // the proxy on the way; nil for none
	tls     *tls.Config // nil for plain HTTP
	timeout time.Duration
}

func (d *dialer) dial(ctx context.Context) (*conn, error) {
	limited, cancel := context.WithTimeout(ctx, d.timeout)
	defer cancel()
	next := d.addr
	if d.via != nil {
		next = d.via.addr
	}
	var nd net.Dialer
	socket, err := nd.DialContext(limited, "tcp", next)
	if err != nil {
		return nil, d.failure(ctx, "connect", err)
	}
	socket = rawio.Wrap(socket)
	nc, op, err := d.reach(limited, socket)
	if err != nil {
		socket.Close()
		return nil, d.failure(ctx, op, err)
	}
	return newConn(nc, socket), nil
}

// reach continues the connection from socket to the server. op names the step that
// failed.
func (d *dialer) reach(ctx context.Context, socket net.Conn) (nc net.Conn, op string, err error) {
	nc = socket
	if d.via != nil && d.via.tls != nil {
		over := tls.Client(nc, d.via.tls)
		if err := over.HandshakeContext(ctx); err != nil {
			return nil, "tls of the proxy", err
		}
		nc = over
	}
	if d.tls == nil {
		return nc, "", nil
	}
	if d.via != nil {
		if err := d.via.tunnel(ctx, nc, d.addr); err != nil {
			return nil, "connect", err
		}
	}
	over := tls.Client(nc, d.tls)
	if err := over.HandshakeContext(ctx); err != nil {
		return nil, "tls", err
	}
	return over, "", nil
}

func (d *dialer) failure(ctx context.Context, op string, err error) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	e := &Error{Op: op, Addr: d.addr, Err: err}
	if d.via != nil {
		e.Addr += " by proxy " + d.via.addr
	}
	if e.Timeout() {
		if end, ok := ctx.Deadline(); ok && !time.Now().Before(end) {
			return context.DeadlineExceeded // package net sees the deadline of ctx before ctx ends
		}
		e.Err = &silence{what: "no connection", after: d.timeout}
	}
	return e
}
