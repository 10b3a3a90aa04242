package peers

import (
	"bufio"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/dragoman-proxy/dragoman/bench/simulate/script"
	"github.com/dragoman-proxy/dragoman/bench/simulate/trace"
)

// Adapter is the file of the adapter for [API]: its tools are look, which reads, and put, which writes.
const Adapter = `---
name: api
type: adapter
version: "1.0.0"
description: "The API of the world"
target: {base_url: "http://127.0.0.1:9100", transport: http, protocol: rest, serialization: json, timeout_ms: 10000}
operations:
  read:
    - name: look
      maps_to: "GET /look"
      description: "Look at something"
      params:
        mark: {type: string, required: true, description: "Whose call it is"}
        plan: {type: string, description: "What becomes of it"}
  create:
    - name: put
      maps_to: "POST /put"
      description: "Put something"
      params:
        mark: {type: string, required: true, description: "Whose call it is"}
        plan: {type: string, description: "What becomes of it"}
---

# The API of the world
`

// API is an HTTP API beside the server. Its events are those of a server whose name is api: Received, with the method of HTTP, Answers, and
// Stopped if the connection ends before the answer. It does what a plan says of Wait, Size and How: status, cut, garbage, never.
type API struct {
	trace   *trace.Trace
	ln      net.Listener
	running sync.WaitGroup

	mu      sync.Mutex
	conns   map[net.Conn]bool
	closed  bool
	carried map[string]int
}

// NewAPI begins to serve at ln.
func NewAPI(t *trace.Trace, ln net.Listener) *API {
	a := &API{trace: t, ln: ln, conns: map[net.Conn]bool{}, carried: map[string]int{}}
	a.running.Go(func() {
		for {
			conn, err := ln.Accept()
			if err != nil {
				return
			}
			a.mu.Lock()
			if a.closed {
				conn.Close()
			} else {
				a.conns[conn] = true
				a.running.Go(func() { a.serve(conn) })
			}
			a.mu.Unlock()
		}
	})
	return a
}

// Close ends all connections. When it returns, each goroutine has ended.
func (a *API) Close() {
	a.mu.Lock()
	a.closed = true
	a.ln.Close()
	for conn := range a.conns {
		conn.Close()
	}
	a.mu.Unlock()
	a.running.Wait()
}

// serve answers the requests of a connection until it ends.
func (a *API) serve(conn net.Conn) {
	defer func() {
		conn.Close()
		a.mu.Lock()
		delete(a.conns, conn)
		a.mu.Unlock()
	}()
	r := bufio.NewReader(conn)
	for {
		q, err := http.ReadRequest(r)
		if err != nil {
			return
		}
		body, err := readBody(q.Body)
		if err != nil {
			return
		}
		gone, done := make(chan struct{}), make(chan struct{})
		go func() {
			defer close(done)
			a.answer(conn, q, body, gone)
		}()
		if _, err = r.Peek(1); err != nil { // the connection is watched while the answer is on its way
			close(gone)
		}
		<-done
		if err != nil {
			return
		}
	}
}

// answer answers a request, unless the connection is gone before.
func (a *API) answer(conn net.Conn, q *http.Request, body []byte, gone <-chan struct{}) {
	var of struct{ Mark, Plan string }
	if q.Method == "POST" {
		_ = json.Unmarshal(body, &of)
	} else {
		of.Mark, of.Plan = q.URL.Query().Get("mark"), q.URL.Query().Get("plan")
	}
	e := trace.Event{Who: "api", Mark: of.Mark, Method: q.Method, User: userOf(q.Header.Get("Authorization"))}
	if numbered, ok := conn.(interface{ ID() int }); ok {
		e.Conn = numbered.ID()
	}
	tell := func(kind trace.Kind, text, failed string) {
		e.Kind, e.Text, e.Failed = kind, text, failed
		a.trace.Add(e)
	}
	a.mu.Lock()
	a.carried[of.Mark]++
	e.N = a.carried[of.Mark]
	a.mu.Unlock()
	if of.Mark == "" || q.Method+" "+q.URL.Path != "GET /look" && q.Method+" "+q.URL.Path != "POST /put" {
		tell(trace.Strange, "a request for "+q.Method+" "+q.URL.String(), "")
	}
	tell(trace.Received, of.Plan, "")
	plan := script.ParsePlan(of.Plan)
	wait := time.NewTimer(plan.Wait)
	defer wait.Stop()
	if plan.How == script.Never {
		wait.Stop()
	}
	select {
	case <-gone:
		tell(trace.Stopped, "connection", "")
		return
	case <-wait.C:
	}
	text := numbered(of.Mark, "done", e.N)
	if plan.Size > 0 {
		text += " " + filling(of.Mark, plan.Size)
	}
	status, answer := 200, encode(object{"text": text})
	switch plan.How {
	case script.Status:
		status, answer = 500, []byte(`{"message":"this is 500"}`)
	case script.Garbage:
		answer = []byte(`{"text":`)
	}
	tell(trace.Answers, text[:min(len(text), 200)], map[string]string{script.Status: "500", script.Garbage: "garbage", script.Cut: "cut"}[plan.How])
	data := appendBody(nil, statusLine(status), answer, "Content-Type", "application/json")
	if plan.How == script.Cut {
		data = data[:len(data)-len(answer)/2]
	}
	_, err := conn.Write(data)
	if plan.How == script.Cut || err != nil && err != io.EOF {
		conn.Close()
	}
}

// ofAdapter says whether a step calls a tool of the adapter.
func ofAdapter(step script.Step) bool { return step.Verb == "look" || step.Verb == "put" }

// adaptedText is the text in the answer of the API as a tool gives it; "" if it is none.
func adaptedText(text string) string {
	var r struct {
		Text string
		Data struct{ Text string }
	}
	if !strings.HasPrefix(text, "{") || json.Unmarshal([]byte(text), &r) != nil {
		return ""
	}
	return r.Text + r.Data.Text
}
