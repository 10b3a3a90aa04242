package cost

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"sync"
	"sync/atomic"

	"github.com/tidwall/gjson"

	"github.com/dragoman-proxy/dragoman/translate"
)

// quiet is a server in this process that holds what its clients open: GET streams, and calls that it does not answer.
type quiet struct {
	*responder
	streams  bool         // it accepts GET streams
	sessions atomic.Int64 // that it has begun
	held     atomic.Int64 // streams and calls that are open
	arrived  chan int64   // numbers of calls of "wait"
	left     chan int64   // numbers of those whose client has left
	numbers  sync.Map     // by the ids of the requests
	url      string
	end      <-chan struct{}
}

// startQuiet starts a server. The caller must call stop.
func startQuiet(ctx context.Context, speaks *translate.Revision, streams bool) (q *quiet, stop func(), err error) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	q = &quiet{responder: &responder{speaks: speaks}, streams: streams, arrived: make(chan int64, 1), left: make(chan int64, 1), url: "http://" + ln.Addr().String() + "/mcp", end: ctx.Done()}
	more := ""
	if speaks.Modern {
		more = `"resultType":"complete","ttlMs":0,"cacheScope":"private",`
	}
	q.answers[small] = split([]byte(`{"jsonrpc":"2.0","id":0,"result":{` + more + `"content":[{"type":"text","text":"sunny"}]}}`))
	q.answers[list] = split([]byte(`{"jsonrpc":"2.0","id":0,"result":{` + more + `"tools":[{"name":"wait","inputSchema":{"type":"object"}}]}}`))
	var served sync.WaitGroup
	served.Go(func() { serveStandard(ctx, ln, q) })
	return q, func() { cancel(); served.Wait() }, nil
}

func (q *quiet) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(io.LimitReader(r.Body, maxRequest))
	if err != nil {
		return
	}
	f := gjson.GetManyBytes(body, "method", "id", "params.name", "params.arguments.number", "params.requestId")
	method, id, tool, number := f[0].Str, f[1].Raw, f[2].Str, f[3].Int()
	switch {
	case r.Method == http.MethodGet && q.streams:
		q.hold(w, r, "")
	case r.Method == http.MethodDelete:
	case r.Method != http.MethodPost:
		w.WriteHeader(http.StatusMethodNotAllowed)
	case method == "notifications/cancelled":
		if number, ok := q.numbers.Load(f[4].Raw); ok {
			q.tell(q.left, number.(int64))
		}
		w.WriteHeader(http.StatusAccepted)
	case id == "":
		w.WriteHeader(http.StatusAccepted)
	case tool == "ask":
		q.hold(w, r, "event: message\ndata: "+`{"jsonrpc":"2.0","id":"q","method":"elicitation/create","params":{"message":"Which city?","requestedSchema":{"type":"object","properties":{"city":{"type":"string"}}}}}`+"\n\n")
	case tool == "wait":
		q.numbers.Store(id, number)
		q.tell(q.arrived, number)
		select {
		case <-r.Context().Done():
			q.tell(q.left, number)
		case <-q.end:
		}
	default:
		w.Header().Set("Content-Type", "application/json")
		switch {
		case method == "initialize" && !q.speaks.Modern:
			w.Header().Set("Mcp-Session-Id", "quiet-"+strconv.FormatInt(q.sessions.Add(1), 10))
		case method == "initialize", method == "server/discover" && !q.speaks.Modern:
			w.WriteHeader(http.StatusBadRequest)
		}
		w.Write(q.answer(body))
	}
}

// hold begins an event stream, and keeps it open.
func (q *quiet) hold(w http.ResponseWriter, r *http.Request, first string) {
	w.Header().Set("Content-Type", "text/event-stream")
	fmt.Fprint(w, first)
	if http.NewResponseController(w).Flush() != nil {
		return
	}
	q.held.Add(1)
	defer q.held.Add(-1)
	select {
	case <-r.Context().Done():
	case <-q.end:
	}
}

func (q *quiet) tell(c chan<- int64, number int64) {
	select {
	case c <- number:
	case <-q.end:
	}
}
