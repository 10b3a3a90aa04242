package upstream

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"syscall"
	"testing"
)

func TestNeverSent(t *testing.T) {
	for op, want := range map[string]bool{"connect": true, "tls": true, "tls of the proxy": true, "start": true, "write": false, "read": false} {
		if err := fmt.Errorf("call: %w", &Error{Op: op, Err: errors.New("x")}); NeverSent(err) != want {
			t.Errorf("%s: %v", op, !want)
		}
	}
	if NeverSent(errors.New("x")) || NeverSent(nil) {
		t.Error("other errors")
	}
}

// refusing is a connection whose peer has refused TLS, and closed it.
type refusing struct{ net.Conn }

func (refusing) Write([]byte) (int, error) {
	return 0, &net.OpError{Op: "write", Err: os.NewSyscallError("write", syscall.EPIPE)}
}

func (refusing) Read([]byte) (int, error) {
	return 0, &net.OpError{Op: "remote error", Err: errors.New("tls: certificate required")}
}

// TestAlertIsReadAfterAFailedWrite: a server of TLS 1.3 refuses a client's certificate behind the handshake, when the request may
// already fail.
func TestAlertIsReadAfterAFailedWrite(t *testing.T) {
	h := newHTTP(t, HTTPConfig{URL: "https://server"})
	ours, theirs := net.Pipe()
	defer theirs.Close()
	h.pool.dial = func(context.Context) (*conn, error) {
		c := newConn(refusing{ours}, ours)
		c.gate = &gate{Conn: ours}
		return c, nil
	}
	if _, err := said(t.Context(), h.Session("", "")); !IsAlert(err) || err.Error() != "upstream server:443: read: tls: certificate required" {
		t.Errorf("%v", err)
	}
}
