package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"
)

const (
	maxMessage = 32 << 20
	maxQueue   = 4096 // messages of a peer that were not read
)

// A wire carries messages to a peer and back. The channel of received is closed when no more can come.
type wire interface {
	send(m message) error
	received() <-chan []byte
	close()
}

// A message is one that a client sends. What is beside its text is for the headers of HTTP.
type message struct {
	text         []byte
	method, name string
	id           string // JSON; "" for a notification or a response
}

func freePort() (int, error) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	defer ln.Close()
	return ln.Addr().(*net.TCPAddr).Port, nil
}

// pipe is the wire of stdio.
type pipe struct {
	p    *child
	stop time.Duration // how long the process may take to end
	come chan []byte
	end  chan struct{}
	once sync.Once
}

func newPipe(p *child, stop time.Duration) *pipe {
	w := &pipe{p: p, stop: stop, come: make(chan []byte, maxQueue), end: make(chan struct{})}
	go func() {
		defer close(w.come)
		lines := bufio.NewScanner(p.out)
		lines.Buffer(nil, maxMessage)
		for lines.Scan() {
			if line := bytes.TrimSpace(lines.Bytes()); len(line) > 0 && line[0] == '{' {
				select {
				case w.come <- bytes.Clone(line):
				case <-w.end:
					return
				}
			}
		}
	}()
	return w
}

func (w *pipe) received() <-chan []byte { return w.come }

func (w *pipe) send(m message) error {
	if len(m.text) == 0 {
		return errors.New("no message")
	}
	sent := make(chan error, 1)
	go func() {
		_, err := w.p.in.Write(append(m.text, '\n'))
		sent <- err
	}()
	timer := time.NewTimer(stopTime)
	defer timer.Stop()
	select {
	case err := <-sent:
		return err
	case <-timer.C:
		return errors.New("the peer does not read")
	}
}

func (w *pipe) close() {
	w.once.Do(func() { close(w.end) })
	w.p.stop(w.stop)
}

// web is the wire of HTTP: Streamable HTTP, or HTTP+SSE if posts is set by the stream's first event.
type web struct {
	ctx      context.Context
	cancel   context.CancelFunc
	client   *http.Client
	url      string
	sse      bool
	revision string
	come     chan []byte
	requests sync.WaitGroup

	mu       sync.Mutex
	session  string
	posts    string // for HTTP+SSE: where messages go
	agreed   string // the revision of the header, once it is agreed
	standing bool
}

// newWeb connects to url. revision is that of a client without a handshake, "" for one with.
func newWeb(ctx context.Context, url, revision string, sse bool) (*web, error) {
	ctx, cancel := context.WithCancel(ctx)
	w := &web{ctx: ctx, cancel: cancel, client: &http.Client{Transport: &http.Transport{}}, url: url, sse: sse, revision: revision,
		agreed: revision, come: make(chan []byte, maxQueue)}
	if !sse {
		return w, nil
	}
	ready := make(chan error, 1)
	w.requests.Go(func() { ready <- w.readStanding(ready) })
	timer := time.NewTimer(stopTime)
	defer timer.Stop()
	select {
	case err := <-ready:
		if err == nil {
			return w, nil
		}
		w.close()
		return nil, err
	case <-timer.C:
		w.close()
		return nil, errors.New("the stream of HTTP+SSE has no event endpoint")
	}
}

func (w *web) received() <-chan []byte { return w.come }

func (w *web) send(m message) error {
	w.requests.Go(func() {
		if err := w.post(m); err != nil && m.id != "" && w.ctx.Err() == nil {
			text, _ := json.Marshal(err.Error()) // cannot fail for a string
			w.deliver(fmt.Appendf(nil, `{"id":%s,"transport":%s}`, m.id, text))
		}
	})
	return nil
}

func (w *web) post(m message) error {
	w.mu.Lock()
	to, session, agreed := w.url, w.session, w.agreed
	if w.sse {
		to = w.posts
	}
	w.mu.Unlock()
	r, err := http.NewRequestWithContext(w.ctx, http.MethodPost, to, bytes.NewReader(m.text))
	if err != nil {
		return err
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Accept", "application/json, text/event-stream")
	setIfAny(r, "Mcp-Session-Id", session)
	setIfAny(r, "MCP-Protocol-Version", agreed)
	if w.revision != "" {
		setIfAny(r, "Mcp-Method", m.method)
		setIfAny(r, "Mcp-Name", m.name)
	}
	resp, err := w.client.Do(r)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if id := resp.Header.Get("Mcp-Session-Id"); id != "" {
		w.mu.Lock()
		w.session = id
		w.mu.Unlock()
	}
	if strings.HasPrefix(resp.Header.Get("Content-Type"), "text/event-stream") {
		return w.events(resp.Body, func(_, data string) { w.deliver([]byte(data)) })
	}
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxMessage))
	if err != nil {
		return err
	}
	body = bytes.TrimSpace(body)
	if m.id == "" || w.sse && resp.StatusCode < 300 || len(body) == 0 && resp.StatusCode == http.StatusAccepted {
		return nil
	}
	var answer struct {
		ID    json.RawMessage
		Error json.RawMessage
	}
	switch {
	case json.Unmarshal(body, &answer) != nil:
		return fmt.Errorf("HTTP %d: %.200s", resp.StatusCode, body)
	case len(answer.ID) == 0 || string(answer.ID) == "null": // the refusal of a request whose id the peer did not read
		w.deliver(fmt.Appendf(nil, `{"id":%s,"error":%s}`, m.id, orNull(answer.Error)))
	default:
		w.deliver(body)
	}
	return nil
}

func orNull(text json.RawMessage) json.RawMessage {
	if len(text) == 0 {
		return json.RawMessage("null")
	}
	return text
}

func setIfAny(r *http.Request, name, value string) {
	if value != "" {
		r.Header.Set(name, value)
	}
}

// greeted opens the stream of a session, after its handshake.
func (w *web) greeted(revision string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if revision > "2025-03-26" { // the header came with 2025-06-18
		w.agreed = revision
	}
	if w.sse || w.standing {
		return
	}
	w.standing = true
	w.requests.Go(func() { w.readStanding(nil) })
}

// readStanding reads the stream of a GET. It sends nil to ready when the peer has said where messages go.
func (w *web) readStanding(ready chan<- error) error {
	w.mu.Lock()
	session, agreed := w.session, w.agreed
	w.mu.Unlock()
	r, err := http.NewRequestWithContext(w.ctx, http.MethodGet, w.url, nil)
	if err != nil {
		return err
	}
	r.Header.Set("Accept", "text/event-stream")
	setIfAny(r, "Mcp-Session-Id", session)
	setIfAny(r, "MCP-Protocol-Version", agreed)
	resp, err := w.client.Do(r)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if !strings.HasPrefix(resp.Header.Get("Content-Type"), "text/event-stream") {
		return fmt.Errorf("HTTP %d to a GET", resp.StatusCode)
	}
	return w.events(resp.Body, func(kind, data string) {
		if kind != "endpoint" {
			w.deliver([]byte(data))
			return
		}
		base, err := url.Parse(w.url)
		if err == nil {
			base, err = base.Parse(data)
		}
		if err == nil && ready != nil {
			w.mu.Lock()
			w.posts = base.String()
			w.mu.Unlock()
			ready <- nil
			ready = nil
		}
	})
}

func (w *web) events(body io.Reader, each func(kind, data string)) error {
	lines := bufio.NewScanner(body)
	lines.Buffer(nil, maxMessage)
	kind, data := "", ""
	for lines.Scan() {
		switch line := lines.Text(); {
		case line == "":
			if data != "" {
				each(kind, data)
			}
			kind, data = "", ""
		case strings.HasPrefix(line, "event:"):
			kind = strings.TrimSpace(line[len("event:"):])
		case strings.HasPrefix(line, "data:"):
			data += strings.TrimPrefix(line[len("data:"):], " ")
		}
	}
	return lines.Err()
}

func (w *web) deliver(text []byte) {
	select {
	case w.come <- text:
	case <-w.ctx.Done():
	}
}

// close deletes the session and ends all streams.
func (w *web) close() {
	w.mu.Lock()
	session := w.session
	w.mu.Unlock()
	if session != "" {
		ctx, cancel := context.WithTimeout(w.ctx, time.Second)
		defer cancel()
		if r, err := http.NewRequestWithContext(ctx, http.MethodDelete, w.url, nil); err == nil {
			r.Header.Set("Mcp-Session-Id", session)
			if resp, err := w.client.Do(r); err == nil {
				resp.Body.Close()
			}
		}
	}
	w.cancel()
	w.requests.Wait()
	w.client.CloseIdleConnections()
}
