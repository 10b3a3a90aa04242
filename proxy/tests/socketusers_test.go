//go:build linux

package tests

import (
	"context"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"syscall"
	"testing"

	"go.uber.org/zap"

	"github.com/dragoman-proxy/dragoman/proxy/bytes/unixsocket"
	"github.com/dragoman-proxy/dragoman/proxy/config"
	"github.com/dragoman-proxy/dragoman/proxy/tests/peertest"
)

// dialAs connects to a unix socket as another user: only the thread of this goroutine becomes that user.
func dialAs(ctx context.Context, uid uintptr, path string) (net.Conn, error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	const same = ^uintptr(0)
	if _, _, errno := syscall.RawSyscall(syscall.SYS_SETRESUID, same, uid, same); errno != 0 {
		return nil, errno
	}
	defer syscall.RawSyscall(syscall.SYS_SETRESUID, same, 0, same)
	return new(net.Dialer).DialContext(ctx, "unix", path)
}

// TestUsersOfASocketShareProcesses: at a unix socket each user has the share of a client, however many connections it opens.
func TestUsersOfASocketShareProcesses(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root, to connect as two users")
	}
	path := filepath.Join(peertest.ShortDir(t), "server.sock")
	if err := os.Chmod(filepath.Dir(path), 0o711); err != nil {
		t.Fatal(err)
	}
	cfg := config.Default()
	cfg.Upstream.Command, cfg.Upstream.Env = []string{os.Args[0]}, map[string]string{badChild: "hangs"}
	cfg.Upstream.HandshakeTimeout, cfg.Session.MaxProcesses, cfg.ListenMode = patience, 8, "0666"
	srv := newOf(t, cfg, zap.NewNop())
	ln, err := unixsocket.Listen(path, cfg.SocketMode())
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	served := make(chan error, 1)
	go func() { served <- srv.Serve(ctx, ln) }()
	t.Cleanup(func() {
		stop()
		if err := <-served; err != nil {
			t.Error(err)
		}
	})
	as := func(uid uintptr) *webClient {
		tr := &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) { return dialAs(ctx, uid, path) }}
		return &webClient{t: t, srv: srv, base: "http://any.example", http: &http.Client{Transport: tr, Timeout: 2 * patience}}
	}
	ann, bob := as(12001), as(12002)
	var anns, bobs []string
	for range 8 {
		anns = append(anns, ann.begins())
	}
	for range 3 {
		bobs = append(bobs, bob.begins())
	}
	for i, session := range anns {
		if lives := ann.lives(session); lives != (i >= 2) {
			t.Errorf("ann's session %d: %v", i, lives)
		}
	}
	for i, session := range bobs {
		if lives := bob.lives(session); lives != (i >= 1) {
			t.Errorf("bob's session %d: %v", i, lives)
		}
	}
}
