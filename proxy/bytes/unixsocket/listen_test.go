//go:build linux || darwin

package unixsocket

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/dragoman-proxy/dragoman/proxy/tests/peertest"
)

// stale leaves a socket at which nobody answers.
func stale(t *testing.T, path string) {
	t.Helper()
	ln, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	ln.SetUnlinkOnClose(false)
	ln.Close()
}

// TestModes: the file has exactly the mode, whatever the umask is, and goes with the listener.
func TestModes(t *testing.T) {
	for _, umask := range []int{0o000, 0o077} {
		for _, mode := range []fs.FileMode{0o600, 0o660, 0o666} {
			path := filepath.Join(peertest.ShortDir(t), "s")
			before := syscall.Umask(umask)
			ln, err := Listen(path, mode)
			syscall.Umask(before)
			if err != nil {
				t.Fatal(err)
			}
			is, err := os.Lstat(path)
			if err != nil || is.Mode() != fs.ModeSocket|mode {
				t.Errorf("%v %v, want %v", is.Mode(), err, mode)
			}
			if at := ln.Addr().String(); at != path {
				t.Errorf("listens at %q", at)
			}
			ln.Close()
			ln.Close()
			if _, err := os.Lstat(path); !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("the file is left: %v", err)
			}
		}
	}
}

// TestWhatIsThere: only a socket of this user at which nobody answers is replaced.
func TestWhatIsThere(t *testing.T) {
	for name, c := range map[string]struct {
		leave func(path string)
		want  string // of the error; "" for none
	}{
		"nothing": {func(string) {}, ""},
		"stale":   {func(path string) { stale(t, path) }, ""},
		"file":    {func(path string) { os.WriteFile(path, nil, 0o600) }, "is not a socket"},
		"folder":  {func(path string) { os.Mkdir(path, 0o700) }, "is not a socket"},
		"link to a stale socket": {func(path string) {
			stale(t, path+"2")
			os.Symlink(path+"2", path)
		}, "is not a socket"},
		"in use": {func(path string) {
			ln, err := net.Listen("unix", path)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { ln.Close() })
		}, "a process listens at"},
		"in use, queue full": {func(path string) { fill(t, path) }, "a process listens at"},
		"parent is a file": {func(path string) {
			os.Remove(filepath.Dir(path))
			os.WriteFile(filepath.Dir(path), nil, 0o600)
		}, "not a directory"},
		"no parent": {func(path string) { os.Remove(filepath.Dir(path)) }, "no such file or directory"},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(peertest.ShortDir(t), "s")
			c.leave(path)
			before, _ := os.Lstat(path)
			free := Free(path)
			if untouched, _ := os.Lstat(path); before != nil && !os.SameFile(before, untouched) {
				t.Error("Free has changed the file")
			}
			ln, err := Listen(path, 0o600)
			if c.want == "" {
				if err != nil || free != nil {
					t.Fatalf("%v, %v", free, err)
				}
				ln.Close()
				return
			}
			if err == nil || !strings.Contains(err.Error(), c.want) || free == nil || !strings.Contains(free.Error(), c.want) {
				t.Fatalf("%v, %v, want %q", free, err, c.want)
			}
			if after, _ := os.Lstat(path); before != nil && !os.SameFile(before, after) {
				t.Error("the file is another one")
			}
		})
	}
}

// fill listens at path and lets its queue of connections be full.
func fill(t *testing.T, path string) {
	t.Helper()
	fd, err := syscall.Socket(syscall.AF_UNIX, syscall.SOCK_STREAM, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { syscall.Close(fd) })
	if err := errors.Join(syscall.Bind(fd, &syscall.SockaddrUnix{Name: path}), syscall.Listen(fd, 0)); err != nil {
		t.Fatal(err)
	}
	for range 100 {
		client, err := syscall.Socket(syscall.AF_UNIX, syscall.SOCK_STREAM, 0)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { syscall.Close(client) })
		syscall.SetNonblock(client, true)
		if err := syscall.Connect(client, &syscall.SockaddrUnix{Name: path}); err != nil {
			return
		}
	}
	t.Skip("the system has no limit for the queue of connections")
}

// TestForeignSocket: a socket of another user is left alone.
func TestForeignSocket(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root, to give a file to another user")
	}
	path := filepath.Join(peertest.ShortDir(t), "s")
	stale(t, path)
	if err := os.Chown(path, 12345, -1); err != nil {
		t.Fatal(err)
	}
	if _, err := Listen(path, 0o600); err == nil || !strings.Contains(err.Error(), "belongs to uid 12345") {
		t.Error(err)
	}
}

// TestReplacedFile: a file that another process has put there is not removed.
func TestReplacedFile(t *testing.T) {
	path := filepath.Join(peertest.ShortDir(t), "s")
	ln, err := Listen(path, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(path, path+"2"); err != nil {
		t.Fatal(err)
	}
	stale(t, path)
	ln.Close()
	if _, err := os.Lstat(path); err != nil {
		t.Error(err)
	}
}

// TestTogether: of several that start at once at a stale socket, one listens, at the file that is there.
func TestTogether(t *testing.T) {
	path := filepath.Join(peertest.ShortDir(t), "s")
	for range 20 {
		stale(t, path)
		var all sync.WaitGroup
		results := make(chan any, 8)
		for range cap(results) {
			all.Go(func() {
				ln, err := Listen(path, 0o600)
				if err != nil {
					results <- err
					return
				}
				results <- ln
			})
		}
		all.Wait()
		close(results)
		var won []net.Listener
		for r := range results {
			switch r := r.(type) {
			case net.Listener:
				won = append(won, r)
			case error:
				if used := new(UsedError); !errors.As(r, &used) {
					t.Error(r)
				}
			}
		}
		if len(won) != 1 {
			t.Fatalf("%d listen", len(won))
		}
		c, err := net.Dial("unix", path)
		if err != nil {
			t.Fatal(err)
		}
		c.Close()
		won[0].Close()
	}
}

func TestPeer(t *testing.T) {
	path := filepath.Join(peertest.ShortDir(t), "s")
	ln, err := Listen(path, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	client, err := net.Dial("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	c, err := ln.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if got, want := Peer(c.(*net.UnixConn)), fmt.Sprint("uid ", os.Geteuid()); got != want {
		t.Errorf("%q, want %q", got, want)
	}
}
