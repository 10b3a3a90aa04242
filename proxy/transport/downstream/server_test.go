package downstream

import (
	"bufio"
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/dragoman-proxy/dragoman/proxy/bytes/sse"
	"github.com/dragoman-proxy/dragoman/proxy/protocol/mcp"
	"github.com/dragoman-proxy/dragoman/proxy/tests/peertest"
)

const patience = peertest.Patience

// fakeHandler answers by functions; a missing one is 405.
type fakeHandler struct{ post, get, del func(*Request, *Response) }

func (f fakeHandler) call(do func(*Request, *Response), q *Request, r *Response) {
	if do == nil {
		r.Status = http.StatusMethodNotAllowed
		return
	}
	do(q, r)
}
func (f fakeHandler) Post(q *Request, r *Response)   { f.call(f.post, q, r) }
func (f fakeHandler) Get(q *Request, r *Response)    { f.call(f.get, q, r) }
func (f fakeHandler) Delete(q *Request, r *Response) { f.call(f.del, q, r) }

// events is a stream whose events a test sends.
type events struct {
	ch     chan sse.Event
	end    chan struct{}
	once   sync.Once
	closed atomic.Int32
}

func newEvents() *events { return &events{ch: make(chan sse.Event), end: make(chan struct{})} }

func (e *events) Next() (sse.Event, error) {
	select {
	case ev, ok := <-e.ch:
		if !ok {
			return ev, io.EOF
		}
		return ev, nil
	case <-e.end:
		return sse.Event{}, errors.New("stream closed")
	}
}

func (e *events) Close() error {
	e.closed.Add(1)
	e.once.Do(func() { close(e.end) })
	return nil
}

// source is a stream of events that a test's handler sends to the client.
type source interface {
	Next() (sse.Event, error)
	Close() error
}

// pump sends the events of s to client until they end, or ctx does.
func pump(ctx context.Context, s source, client mcp.Peer) error {
	defer context.AfterFunc(ctx, func() { _ = s.Close() })()
	defer s.Close()
	for {
		e, err := s.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err == nil {
			err = client.Send(e)
		}
		if err != nil {
			return err
		}
	}
}

// stream answers with the events of s.
func stream(s source, q *Request, r *Response) {
	if q.Client != nil && q.Body != nil {
		r.Cut = pump(q.Ctx, s, q.Client)
		return
	}
	ctx := q.Ctx
	r.Listen = func(client mcp.Peer, _ mcp.Waker) error { return pump(ctx, s, client) }
}

func (e *events) send(t *testing.T, data string) {
	t.Helper()
	select {
	case e.ch <- sse.Event{Data: []byte(data)}:
	case <-time.After(patience):
		t.Fatal("the event is not taken")
	}
}

// server runs h on a loopback port until the test ends.
type server struct {
	*HTTP
	addr  string
	serve chan error
	logs  logs
}

type logs struct {
	mu   sync.Mutex
	text []string
}

func (l *logs) add(what string, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.text = append(l.text, fmt.Sprintf("%s: %v", what, err))
}

func (l *logs) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Join(l.text, "\n")
}

func start(t *testing.T, h Handler, cfg HTTPConfig, wrap ...func(net.Listener) net.Listener) *server {
	t.Helper()
	return startHTTP(t, func(cfg HTTPConfig) *HTTP { return NewHTTP(h, cfg) }, cfg, wrap...)
}

func startHTTP(t *testing.T, build func(HTTPConfig) *HTTP, cfg HTTPConfig, wrap ...func(net.Listener) net.Listener) *server {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &server{addr: ln.Addr().String(), serve: make(chan error, 1)}
	for _, w := range wrap {
		ln = w(ln)
	}
	cfg.Log = s.logs.add
	s.HTTP = build(cfg)
	go func() { s.serve <- s.Serve(ln) }()
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Millisecond)
		defer cancel()
		_ = s.Shutdown(ctx)
		if err := recv(t, s.serve, "Serve to return"); err != nil && !errors.Is(err, ErrStopped) {
			t.Errorf("Serve: %v", err)
		}
		nothingLeft(t)
	})
	return s
}

// nothingLeft fails if a goroutine of dragoman outlives the server.
func nothingLeft(t *testing.T) {
	t.Helper()
	buf := make([]byte, 1<<20)
	for deadline := time.Now().Add(patience); ; runtime.Gosched() {
		left := ""
		for _, g := range strings.Split(string(buf[:runtime.Stack(buf, true)]), "\n\n") {
			if strings.Contains(g, "proxy/transport/downstream.") && !strings.Contains(g, "testing.tRunner") ||
				strings.Contains(g, "fasthttp.") {
				left = g
			}
		}
		if left == "" {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("left behind:\n%s", left)
		}
	}
}

func recv[T any](t *testing.T, ch <-chan T, what string) T {
	t.Helper()
	select {
	case v := <-ch:
		return v
	case <-time.After(patience):
		t.Fatalf("waited in vain for %s", what)
		panic("unreachable")
	}
}

func dial(t *testing.T, addr string) net.Conn {
	t.Helper()
	nc, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = nc.Close() })
	_ = nc.SetDeadline(time.Now().Add(patience))
	return nc
}

const (
	postHead = "POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n" +
		"Accept: application/json, text/event-stream\r\n"
	getHead = "GET /mcp HTTP/1.1\r\nHost: localhost\r\nAccept: text/event-stream\r\n"
)

func post(body string) string {
	return fmt.Sprintf("%sContent-Length: %d\r\n\r\n%s", postHead, len(body), body)
}

// ask writes a request on a connection of its own and reads the answer.
func ask(t *testing.T, addr, request string) (*http.Response, string) {
	t.Helper()
	nc := dial(t, addr)
	if _, err := io.WriteString(nc, request); err != nil {
		t.Fatal(err)
	}
	return answer(t, bufio.NewReader(nc), request)
}

func answer(t *testing.T, br *bufio.Reader, request string) (*http.Response, string) {
	t.Helper()
	res, body, err := tryAnswer(br, request)
	if err != nil {
		t.Fatalf("%.60q: %v", request, err)
	}
	return res, body
}

// tryAnswer is answer where the server may close the connection before it answers.
func tryAnswer(br *bufio.Reader, request string) (*http.Response, string, error) {
	method, _, _ := strings.Cut(request, " ")
	res, err := http.ReadResponse(br, &http.Request{Method: method})
	if err != nil {
		return nil, "", err
	}
	body, err := io.ReadAll(res.Body)
	return res, string(body), err
}

// askSlowly sends a part of a request to a server with a short ReadTimeout, until it has come in time, and expects status 408.
func askSlowly(t *testing.T, s *server, part string) {
	t.Helper()
	peertest.Eventually(t, "the part comes in time", func() bool {
		nc := dial(t, s.addr)
		if _, err := io.WriteString(nc, part); err != nil {
			return false
		}
		res, body, err := tryAnswer(bufio.NewReader(nc), part)
		if err == nil && res.StatusCode != 408 {
			t.Fatalf("%d %s", res.StatusCode, body)
		}
		return err == nil
	})
}

func echo(q *Request, r *Response) { r.Body = bytes.Clone(q.Body) }

// certificate makes a self-signed certificate for 127.0.0.1.
func certificate(t *testing.T) tls.Certificate {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
}
