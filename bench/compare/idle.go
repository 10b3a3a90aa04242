package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"
	"time"

	"github.com/tidwall/gjson"
	"golang.org/x/sync/errgroup"

	"github.com/dragoman-proxy/dragoman/bench/compare/process"
	"github.com/dragoman-proxy/dragoman/proxy/bytes/sse"
	"github.com/dragoman-proxy/dragoman/translate"
)

const (
	openers  = 8                // clients that are opened at the same time
	openTime = 3 * time.Minute  // the time limit for opening all of them
	settle   = 10 * time.Second // from opening the last one to the measurement
)

// idle is what dragoman uses while clients stay connected and send nothing.
type idle struct {
	clients       int
	alone, listen process.Usage // on HTTP+SSE, without and with a GET stream to the server for each
	streams       process.Usage // on Streamable HTTP, with a GET stream of each client and one to the server for it
}

// goals returns the goals for the memory with idle clients.
func (i *idle) goals() []goal {
	at := fmt.Sprintf("%d idle clients on HTTP+SSE", i.clients)
	return []goal{
		{at + ", MB", float64(i.alone.Resident) / 1e6, 65, 120},
		{at + ", each with a stream to the server, MB", float64(i.listen.Resident) / 1e6, 120, 250},
		{fmt.Sprintf("%d idle clients with a GET stream, each with one to the server, MB", i.clients), float64(i.streams.Resident) / 1e6, 80, 120},
	}
}

// sleeper is a server that sends no messages of its own. It accepts GET streams if grants is set.
type sleeper struct {
	grants  bool
	streams atomic.Int64
	end     <-chan struct{}
}

func (s *sleeper) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch r.Method {
	case http.MethodPost:
		body, err := io.ReadAll(io.LimitReader(r.Body, 1<<20))
		if err != nil {
			return
		}
		if gjson.GetBytes(body, "method").Str != "initialize" {
			w.WriteHeader(http.StatusAccepted)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Mcp-Session-Id", "51ee9")
		fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":{"protocolVersion":%q,"capabilities":{"tools":{}},"serverInfo":{"name":"sleeper","version":"1"}}}`,
			gjson.GetBytes(body, "id").Raw, serverRevision().Name)
	case http.MethodGet:
		if !s.grants {
			w.WriteHeader(http.StatusMethodNotAllowed)
			return
		}
		w.Header().Set("Content-Type", "text/event-stream")
		if http.NewResponseController(w).Flush() != nil {
			return
		}
		s.streams.Add(1)
		defer s.streams.Add(-1)
		select {
		case <-r.Context().Done():
		case <-s.end:
		}
	}
}

// opener initializes a client, and opens its stream on conn. It uses post for all else.
type opener func(ctx context.Context, conn net.Conn, post *http.Client, endpoint *url.URL) error

// measureIdle opens n clients of either transport on dragoman in front of either kind of server.
func (l launcher) measureIdle(ctx context.Context, n int) (*idle, error) {
	if n == 0 {
		return nil, nil
	}
	i := &idle{clients: n}
	for _, c := range []struct {
		open   opener
		grants bool
		usage  *process.Usage
	}{{openSSE, false, &i.alone}, {openSSE, true, &i.listen}, {openStream, true, &i.streams}} {
		u, err := l.measureSleep(ctx, n, c.open, c.grants)
		if err != nil {
			return nil, fmt.Errorf("%d idle clients: %w", n, err)
		}
		*c.usage = u
	}
	return i, nil
}

func (l launcher) measureSleep(ctx context.Context, n int, open opener, grants bool) (u process.Usage, err error) {
	ctx, cancel := context.WithTimeout(ctx, openTime+settle)
	defer cancel()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return u, err
	}
	server := &sleeper{grants: grants, end: ctx.Done()}
	s := &http.Server{Handler: server}
	served := make(chan struct{})
	go func() {
		defer close(served)
		s.Serve(ln)
	}()
	defer func() {
		s.Close()
		<-served
	}()
	w, err := l.ours(ctx, "http://"+ln.Addr().String()+"/mcp")
	if err != nil {
		return u, err
	}
	defer w.proxy.Stop()

	clients := make([]net.Conn, n)
	defer func() {
		for _, c := range clients {
			if c != nil {
				c.Close()
			}
		}
	}()
	g, opening := errgroup.WithContext(ctx)
	for first := range openers {
		g.Go(func() error {
			post := &http.Client{Transport: &http.Transport{}}
			defer post.CloseIdleConnections()
			for at := first; at < n; at += openers {
				c, err := open.connect(opening, post, w.url)
				if err != nil {
					return err
				}
				clients[at] = c
			}
			return nil
		})
	}
	if err := g.Wait(); err != nil {
		return u, err
	}
	for grants && server.streams.Load() < int64(n) {
		select {
		case <-time.After(10 * time.Millisecond):
		case <-ctx.Done():
			return u, fmt.Errorf("%d of the streams to the server are open", server.streams.Load())
		}
	}
	select {
	case <-time.After(settle):
	case <-ctx.Done():
		return u, ctx.Err()
	}
	u, err = w.proxy.Usage()
	if want := n + int(server.streams.Load()); err == nil && u.Files < want {
		err = fmt.Errorf("only %d files are open, of %d connections", u.Files, want)
	}
	return u, err
}

// connect connects a client, and returns the connection of its stream.
func (open opener) connect(ctx context.Context, post *http.Client, endpoint string) (net.Conn, error) {
	u, err := url.Parse(endpoint)
	if err != nil {
		return nil, err
	}
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", u.Host)
	if err != nil {
		return nil, err
	}
	if err = conn.SetDeadline(time.Now().Add(callTime)); err == nil {
		err = open(ctx, conn, post, u)
	}
	if err != nil {
		conn.Close()
		return nil, err
	}
	return conn, conn.SetDeadline(time.Time{})
}

// openSSE is an opener for HTTP+SSE.
func openSSE(ctx context.Context, conn net.Conn, post *http.Client, u *url.URL) error {
	stream, err := get(conn, u.Host, "/sse", "")
	if err != nil {
		return err
	}
	events := sse.NewReader(stream, 1<<20)
	e, err := events.Next()
	if err != nil {
		return err
	}
	to := "http://" + u.Host + string(e.Data)
	if _, err = send(ctx, post, to, "", hello(), http.StatusAccepted); err != nil {
		return err
	}
	if e, err = events.Next(); err != nil {
		return err
	}
	if !gjson.GetBytes(e.Data, "result").IsObject() {
		return fmt.Errorf("initialize: %.200q", e.Data)
	}
	_, err = send(ctx, post, to, "", initialized, http.StatusAccepted)
	return err
}

// openStream is an opener for Streamable HTTP.
func openStream(ctx context.Context, conn net.Conn, post *http.Client, u *url.URL) error {
	session, err := send(ctx, post, u.String(), "", hello(), http.StatusOK)
	if err != nil {
		return err
	}
	if _, err := send(ctx, post, u.String(), session, initialized, http.StatusAccepted); err != nil {
		return err
	}
	_, err = get(conn, u.Host, u.Path, session)
	return err
}

// get opens a stream on conn.
func get(conn net.Conn, host, path, session string) (io.Reader, error) {
	head := fmt.Sprintf("GET %s HTTP/1.1\r\nHost: %s\r\nAccept: text/event-stream\r\n", path, host)
	if session != "" {
		head += "Mcp-Session-Id: " + session + "\r\n"
	}
	if _, err := io.WriteString(conn, head+"\r\n"); err != nil {
		return nil, err
	}
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		return nil, err
	}
	if resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("stream: %s", resp.Status)
	}
	return resp.Body, nil
}

const initialized = `{"jsonrpc":"2.0","method":"notifications/initialized"}`

func hello() string {
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":%q,"capabilities":{},"clientInfo":{"name":"compare","version":"1"}}}`, translate.Oldest().Name)
}

// send posts a message, and returns the session that the response names.
func send(ctx context.Context, post *http.Client, to, session, message string, want int) (string, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, to, strings.NewReader(message))
	if err != nil {
		return "", err
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "application/json, text/event-stream")
	if session != "" {
		req.Header.Set("Mcp-Session-Id", session)
	}
	resp, err := post.Do(req)
	if err != nil {
		return "", err
	}
	io.Copy(io.Discard, resp.Body)
	resp.Body.Close()
	if resp.StatusCode != want {
		return "", errors.New(resp.Status)
	}
	return resp.Header.Get("Mcp-Session-Id"), nil
}
