//go:build linux || darwin

package unixsocket

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"time"
)

// answerTime is how long a process may take to accept a connection before the socket's file counts as used.
const answerTime = 2 * time.Second

// Listen listens at a path with this mode of the socket's file: who may write to it may connect. A file that is there is replaced
// if [Free] returns nil. Closing the listener removes the file, unless another process has replaced it.
func Listen(path string, mode fs.FileMode) (net.Listener, error) {
	unlock, err := lockFolder(path)
	if err != nil {
		return nil, err
	}
	defer unlock()
	if err := Free(path); err != nil {
		return nil, err
	}
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("a socket that nobody answers at cannot be replaced: %w", err)
	}
	f, err := open(path, mode)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	own, err := os.Lstat(path)
	if err != nil {
		return nil, err
	}
	ln, err := net.FileListener(f)
	if err != nil {
		return nil, err
	}
	return &listener{UnixListener: ln.(*net.UnixListener), path: path, own: own}, nil
}

// open makes the socket. Its mode is set before it listens: until then, connections are refused.
func open(path string, mode fs.FileMode) (*os.File, error) {
	syscall.ForkLock.RLock()
	fd, err := syscall.Socket(syscall.AF_UNIX, syscall.SOCK_STREAM, 0)
	if err == nil {
		syscall.CloseOnExec(fd)
	}
	syscall.ForkLock.RUnlock()
	if err != nil {
		return nil, os.NewSyscallError("socket", err)
	}
	f := os.NewFile(uintptr(fd), path)
	if err := syscall.Bind(fd, &syscall.SockaddrUnix{Name: path}); err != nil {
		f.Close()
		return nil, &fs.PathError{Op: "bind", Path: path, Err: err}
	}
	err = os.Chmod(path, mode)
	if err == nil {
		err = os.NewSyscallError("listen", syscall.Listen(fd, syscall.SOMAXCONN))
	}
	if err != nil {
		f.Close()
		_ = os.Remove(path)
		return nil, err
	}
	return f, nil
}

// Free returns nil if [Listen] can listen at a path: there is no file, or a socket of this user at which nobody answers. Otherwise
// it says what is there. It changes nothing.
func Free(path string) error {
	const write = 2
	if err := syscall.Access(filepath.Dir(path)+"/.", write); err != nil {
		return &fs.PathError{Op: "write to", Path: filepath.Dir(path), Err: err}
	}
	there, err := os.Lstat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return err
	case there.Mode().Type() != fs.ModeSocket:
		return fmt.Errorf("%s is there and is not a socket: it is left alone", path)
	}
	if owner := there.Sys().(*syscall.Stat_t).Uid; int(owner) != os.Geteuid() {
		return fmt.Errorf("the socket %s belongs to uid %d, and this process has uid %d: it is left alone", path, owner, os.Geteuid())
	}
	conn, err := net.DialTimeout("unix", path, answerTime)
	switch {
	case err == nil:
		conn.Close()
		return &UsedError{path}
	case errors.Is(err, syscall.ECONNREFUSED), errors.Is(err, fs.ErrNotExist):
		return nil
	case errors.Is(err, syscall.EAGAIN), errors.Is(err, os.ErrDeadlineExceeded): // its queue of connections is full
		return &UsedError{path}
	}
	return err
}

// lockTime is how long Listen waits for another process that takes a socket in the same folder.
const lockTime = 2 * time.Second

// lockFolder keeps other processes from taking a socket in the folder of path: two that start at once would remove each other's. A
// folder that cannot be locked is used without.
func lockFolder(path string) (unlock func(), err error) {
	folder, err := os.Open(filepath.Dir(path))
	if errors.Is(err, fs.ErrPermission) {
		return func() {}, nil
	}
	if err != nil {
		return nil, err
	}
	limited, stop := context.WithTimeout(context.Background(), lockTime)
	defer stop()
	for {
		err := syscall.Flock(int(folder.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if !errors.Is(err, syscall.EWOULDBLOCK) && !errors.Is(err, syscall.EINTR) {
			return func() { folder.Close() }, nil
		}
		select {
		case <-limited.Done():
			folder.Close()
			return nil, fmt.Errorf("another process has locked %s", filepath.Dir(path))
		case <-time.After(10 * time.Millisecond):
		}
	}
}

// listener removes its file when it is closed.
type listener struct {
	*net.UnixListener
	path string
	own  fs.FileInfo
	once sync.Once
}

func (l *listener) Close() error {
	l.once.Do(func() { // while it still listens: nobody replaces the file then
		if there, err := os.Lstat(l.path); err == nil && os.SameFile(there, l.own) {
			_ = os.Remove(l.path)
		}
	})
	return l.UnixListener.Close()
}

// Peer returns the user at the other end of a connection that was accepted, as "uid 1000"; "" if the system does not say. A user of another
// user namespace has the number that it has here.
func Peer(nc *net.UnixConn) string {
	raw, err := nc.SyscallConn()
	if err != nil {
		return ""
	}
	var uid uint32
	if e := raw.Control(func(fd uintptr) { uid, err = peerOf(int(fd)) }); e != nil || err != nil {
		return ""
	}
	return fmt.Sprint(User, uid)
}
