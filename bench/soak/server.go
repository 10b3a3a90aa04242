package main

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"time"

	"github.com/tidwall/gjson"

	"github.com/dragoman-proxy/dragoman/translate"
)

// manner is what a server does with a call; it is the name of the tool.
type manner string

const (
	echo   manner = "echo"   // answers
	events manner = "events" // answers in events, after others
	hang   manner = "hang"   // never answers
	cut    manner = "cut"    // closes in the middle of the answer
	lie    manner = "lie"    // answers something that is no answer
)

// maxCall bounds what a server here reads of one call.
const maxCall = 1 << 20

// request is what a server here looks at.
type request struct {
	method, id, tool, text string // text and id as they were written
}

func read(body []byte) request {
	f := gjson.GetManyBytes(body, "method", "id", "params.name", "params.arguments.text")
	return request{f[0].Str, f[1].Raw, f[2].Str, f[3].Raw}
}

func (r request) hello() string {
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":{"protocolVersion":%q,"capabilities":{"tools":{}},"serverInfo":{"name":"soak","version":"1"}}}`,
		r.id, translate.Handshake()[1].Name)
}

func (r request) answer() string {
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":{"content":[{"type":"text","text":%s}],"structuredContent":{"text":%s}}}`, r.id, r.text, r.text)
}

const note = `{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":"still here"}}`

// httpServer is a server on HTTP, one that behaves badly.
type httpServer struct {
	url    string
	server *http.Server
	done   chan struct{}
}

func startServer(h http.Handler) (*httpServer, error) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	s := &httpServer{"http://" + ln.Addr().String() + "/mcp", &http.Server{Handler: h}, make(chan struct{})}
	go func() {
		defer close(s.done)
		s.server.Serve(ln)
	}()
	return s, nil
}

func (s *httpServer) close() {
	s.server.Close()
	<-s.done
}

func serveHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(io.LimitReader(r.Body, maxCall))
	if err != nil {
		return
	}
	call := read(body)
	switch {
	case r.Method == http.MethodGet:
		w.Header().Set("Content-Type", "text/event-stream")
		fmt.Fprintf(w, "data: %s\n\n", note)
		http.NewResponseController(w).Flush()
		<-r.Context().Done()
	case r.Method == http.MethodDelete:
	case call.id == "":
		w.WriteHeader(http.StatusAccepted)
	case call.method == "initialize":
		w.Header().Set("Mcp-Session-Id", "77")
		w.Header().Set("Content-Type", "application/json")
		io.WriteString(w, call.hello())
	default:
		behave(w, r, call)
	}
}

func behave(w http.ResponseWriter, r *http.Request, call request) {
	w.Header().Set("Content-Type", "application/json")
	switch manner(call.tool) {
	case events:
		w.Header().Set("Content-Type", "text/event-stream")
		fmt.Fprintf(w, "data: %s\n\ndata: %s\n\n", note, call.answer())
	case hang:
		select {
		case <-r.Context().Done():
		case <-time.After(time.Minute):
		}
	case cut:
		w.Header().Set("Content-Length", "100000")
		io.WriteString(w, call.answer()[:20])
		panic(http.ErrAbortHandler)
	case lie:
		w.Header().Set("Content-Type", "text/html")
		io.WriteString(w, "<html>502 Bad Gateway")
	default:
		io.WriteString(w, call.answer())
	}
}

// servePipe is the same on a pipe. A cut answer is its last.
func servePipe(in io.Reader, out io.Writer) error {
	lines := bufio.NewScanner(in)
	lines.Buffer(nil, maxCall)
	for lines.Scan() {
		call := read(lines.Bytes())
		if call.id == "" || call.method == "" {
			continue
		}
		say := call.answer()
		switch {
		case call.method == "initialize":
			say = call.hello()
		case manner(call.tool) == hang:
			continue
		case manner(call.tool) == cut:
			_, err := io.WriteString(out, say[:20])
			return err
		case manner(call.tool) == lie:
			say = "noise\n" + `{"jsonrpc":"2.0","id":"nobody's","result":{}}` + "\n" + `{"jsonrpc":"2.0","id":` + call.id + `}`
		case manner(call.tool) == events:
			say = note + "\n" + say
		}
		if _, err := io.WriteString(out, say+"\n"); err != nil {
			return err
		}
	}
	return lines.Err()
}
