//go:build linux || darwin

package upstream

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/dragoman-proxy/dragoman/proxy/tests/peertest"
)

// atSocket serves requests at a unix socket.
func atSocket(t *testing.T, serve http.HandlerFunc) (path string, conns *atomic.Int32) {
	t.Helper()
	path = filepath.Join(peertest.ShortDir(t), "a:b.sock")
	ln, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	conns = new(atomic.Int32)
	s := &http.Server{Handler: serve, ConnState: func(_ net.Conn, state http.ConnState) {
		if state == http.StateNew {
			conns.Add(1)
		}
	}}
	go s.Serve(ln)
	t.Cleanup(func() { s.Close() })
	return path, conns
}

func socketServer(t *testing.T, c HTTPConfig) *HTTP {
	t.Helper()
	h, err := NewHTTP(c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { h.Close() })
	return h
}

// TestCallAtSocket: requests go to the HTTP path behind the socket's, with Host localhost, and connections are used again.
func TestCallAtSocket(t *testing.T) {
	var said []string
	path, conns := atSocket(t, func(w http.ResponseWriter, r *http.Request) {
		said = append(said, r.Method+" "+r.Host+" "+r.RequestURI)
		w.Header().Set("Content-Type", "application/json")
		io.WriteString(w, answer)
	})
	h := socketServer(t, HTTPConfig{URL: "unix:" + path + ":/mcp:/x?y=1"})
	for range 2 {
		s := h.Session("", "2025-11-25")
		st, err := s.Send(t.Context(), &Outgoing{Request: true, Body: []byte(ping)})
		if err != nil {
			t.Fatal(err)
		}
		for e, err := range st.Events {
			if err == io.EOF {
				break
			}
			if err != nil || string(e.Data) != answer {
				t.Errorf("%q %v", e.Data, err)
			}
		}
		st.Close()
	}
	if want := "POST localhost /mcp:/x?y=1"; len(said) != 2 || said[0] != want || said[1] != want || conns.Load() != 1 {
		t.Errorf("%q on %d connections", said, conns.Load())
	}
}

// TestSSEAtSocket: a session over HTTP+SSE, whose endpoint may be named with the Host that the server gets.
func TestSSEAtSocket(t *testing.T) {
	posted := make(chan string, 2)
	path, _ := atSocket(t, func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPost {
			posted <- r.RequestURI
			w.WriteHeader(http.StatusAccepted)
			return
		}
		w.Header().Set("Content-Type", "text/event-stream")
		fmt.Fprintf(w, "event: endpoint\ndata: http://%s/messages?id=1\n\n", r.Host)
		w.(http.Flusher).Flush()
		<-r.Context().Done()
	})
	s := socketServer(t, HTTPConfig{URL: "unix:" + path + ":/sse"}).SSESession()
	st, err := s.Listen(t.Context(), ListenOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer st.Close()
	if _, err := s.Send(t.Context(), &Outgoing{Request: true, Body: []byte(ping)}); err != nil {
		t.Fatal(err)
	}
	if got := <-posted; got != "/messages?id=1" {
		t.Errorf("posted to %s", got)
	}
}

// TestNobodyAtSocket: the error names the socket, and says that nothing was sent.
func TestNobodyAtSocket(t *testing.T) {
	path := filepath.Join(peertest.ShortDir(t), "a:b.sock")
	for name, want := range map[string]error{"missing": fs.ErrNotExist, "stale": syscall.ECONNREFUSED} {
		if name == "stale" {
			ln, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
			if err != nil {
				t.Fatal(err)
			}
			ln.SetUnlinkOnClose(false)
			ln.Close()
		}
		h := socketServer(t, HTTPConfig{URL: "unix:" + path + ":/mcp"})
		_, err := h.Session("", "2025-11-25").Send(t.Context(), &Outgoing{Request: true, Body: []byte(ping)})
		if !errors.Is(err, want) || !NeverSent(err) || !strings.HasPrefix(err.Error(), "upstream unix:"+path+": connect: ") {
			t.Errorf("%s: %v", name, err)
		}
		os.Remove(path)
	}
}

// TestBusySocket: while the queue of a server's socket is full, the connection waits, at most for the time of one.
func TestBusySocket(t *testing.T) {
	path := filepath.Join(peertest.ShortDir(t), "a:b.sock")
	fd, err := syscall.Socket(syscall.AF_UNIX, syscall.SOCK_STREAM, 0)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(syscall.Bind(fd, &syscall.SockaddrUnix{Name: path}), syscall.Listen(fd, 0)); err != nil {
		t.Fatal(err)
	}
	file := os.NewFile(uintptr(fd), path)
	defer file.Close()
	full := false
	for range 100 {
		c, err := net.Dial("unix", path)
		if err != nil {
			full = true
			break
		}
		defer c.Close()
	}
	if !full {
		t.Skip("the system has no limit for the queue of connections")
	}
	short := socketServer(t, HTTPConfig{URL: "unix:" + path + ":/mcp", DialTimeout: 50 * time.Millisecond})
	_, err = short.Session("", "2025-11-25").Send(t.Context(), &Outgoing{Request: true, Body: []byte(ping)})
	if e := new(Error); !errors.As(err, &e) || !e.Timeout() || !NeverSent(err) {
		t.Errorf("%v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	long := socketServer(t, HTTPConfig{URL: "unix:" + path + ":/mcp", DialTimeout: patience})
	connected := make(chan error, 1)
	go func() {
		c, err := long.pool.dial(ctx)
		if err == nil {
			c.Close()
		}
		connected <- err
	}()
	ln, err := net.FileListener(file)
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	go func() { // makes room
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			defer c.Close()
		}
	}()
	select {
	case err := <-connected:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(patience):
		t.Error("no connection, although there is room")
	}
}

// TestUnusableSocketURLs: what is wrong is said without a connection.
func TestUnusableSocketURLs(t *testing.T) {
	for url, want := range map[string]string{
		"unix:/run/x.sock":       "has no HTTP path",
		"unix:x.sock:/mcp":       "has no absolute path",
		"unix:/run/x.sock:/?a b": "must not have spaces",
	} {
		if _, err := NewHTTP(HTTPConfig{URL: url}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", url, err)
		}
	}
}
