// Package unixsocket reads addresses of unix sockets, and listens at them. A listen address is unix:/run/x.sock; the URL of a server
// is unix:/run/x.sock:/mcp, the path of the socket and the path of HTTP. In both, unix:///run/x.sock is the same as unix:/run/x.sock.
package unixsocket

import (
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
)

// Scheme begins the addresses of unix sockets.
const Scheme = "unix:"

// User begins what [Peer] returns.
const User = "uid "

const supported = runtime.GOOS == "linux" || runtime.GOOS == "darwin"

// longest is the number of bytes that the path of a socket may have.
const longest = len(syscall.RawSockaddrUnix{}.Path) - 1

// Is reports whether an address or a URL names a unix socket. "unix:8808" is a port of a host with this name.
func Is(address string) bool {
	rest, ok := strings.CutPrefix(address, Scheme)
	return ok && (rest == "" || rest[0] < '0' || rest[0] > '9')
}

// Path returns the path of the socket in a listen address.
func Path(address string) (string, error) {
	path, err := pathOf(address)
	switch {
	case err != nil:
		return "", err
	case strings.Contains(path, ":/"):
		return "", errors.New("has a second path behind the socket's: path sets where the endpoint is")
	}
	return checked(path)
}

// Server returns the path of the socket in the URL of a server, and the path of HTTP behind it, with its query. The first ":/"
// behind the scheme separates them.
func Server(url string) (path, target string, err error) {
	path, err = pathOf(url)
	if err != nil {
		return "", "", err
	}
	path, target, ok := strings.Cut(path, ":/")
	if !ok {
		return "", "", errors.New("has no HTTP path behind the socket's, as in unix:/run/server.sock:/mcp")
	}
	path, err = checked(path)
	return path, "/" + target, err
}

// URL returns the URL of what is served at target, a path of HTTP, at a listener's address.
func URL(at *net.UnixAddr, target string) string { return Scheme + at.Name + ":" + target }

// Curl returns the arguments with which curl sends a request to a URL.
func Curl(url string) string {
	if !Is(url) {
		return url
	}
	path, target, err := Server(url)
	if err != nil {
		return url
	}
	return "--unix-socket " + quoted(path) + " " + quoted("http://localhost"+target)
}

// quoted returns a word for a shell.
func quoted(text string) string {
	if strings.Trim(text, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_@%+=:,./-") == "" {
		return text
	}
	return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'"
}

// pathOf returns what is behind the scheme, which must be an absolute path.
func pathOf(address string) (string, error) {
	path := strings.TrimPrefix(address, Scheme)
	if rest, ok := strings.CutPrefix(path, "//"); ok {
		path = rest // as in unix:///run/x.sock; unix://host/x.sock names no socket
	}
	if !strings.HasPrefix(path, "/") {
		return "", errors.New("has no absolute path of a socket, as in unix:/run/server.sock")
	}
	return path, nil
}

func checked(path string) (string, error) {
	path = filepath.Clean(path)
	switch {
	case !supported:
		return "", errUnsupported
	case strings.ContainsRune(path, 0):
		return "", errors.New("has a NUL byte in the path of a socket")
	case len(path) > longest:
		return "", fmt.Errorf("has a path of %d bytes: a socket's has %d at most", len(path), longest)
	}
	return path, nil
}

var errUnsupported = errors.New("names a unix socket, which dragoman uses on Linux and macOS only")

// UsedError says that a process accepts connections at a socket.
type UsedError struct{ Path string }

func (e *UsedError) Error() string { return "a process listens at " + e.Path + " already" }
