package upstream

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"syscall"
	"time"

	"github.com/dragoman-proxy/dragoman/proxy/bytes/callctx"
	"github.com/dragoman-proxy/dragoman/proxy/bytes/unixsocket"
)

// serverURL returns the URL that a text is, and the path of the unix socket behind which its server is; "" for none. The host is
// localhost there. The errors do not quote the text, which may contain a secret.
func serverURL(text string) (u *url.URL, socket string, err error) {
	if unixsocket.Is(text) {
		var target string
		if socket, target, err = unixsocket.Server(text); err != nil {
			return nil, "", fmt.Errorf("upstream url: %w", err)
		}
		text = "http://localhost" + target
	}
	if u, err = url.Parse(text); err != nil {
		return nil, "", errors.New("upstream url: not a URL")
	}
	return u, socket, nil
}

// dialSocket returns a function that connects to a unix socket as dial does to an address.
func (d *dialer) dialSocket(path string) func(context.Context) (*conn, error) {
	return func(ctx context.Context) (*conn, error) {
		own := callctx.Under(ctx)
		defer own.End(nil)
		limited, cancel := context.WithTimeout(own, d.timeout)
		defer cancel()
		by := d.network
		if by == nil {
			by = new(net.Dialer).DialContext
		}
		socket, err := waitingDial(limited, by, path)
		if err != nil {
			return nil, d.failure(ctx, "connect", err)
		}
		return newConn(socket, socket), nil
	}
}

// waitingDial connects to a unix socket. While its queue of connections is full, the system does not wait, as it does over TCP:
// waitingDial does.
func waitingDial(ctx context.Context, by Dial, path string) (net.Conn, error) {
	for pause := time.Millisecond; ; pause = min(2*pause, 100*time.Millisecond) {
		socket, err := by(ctx, "unix", path)
		if !errors.Is(err, syscall.EAGAIN) {
			return socket, err
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(pause):
		}
	}
}
