package main

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tidwall/gjson"
	"golang.org/x/sync/errgroup"

	"github.com/dragoman-proxy/dragoman/bench/compare/process"
	"github.com/dragoman-proxy/dragoman/translate"
)

// crowd is what dragoman uses while it holds sessions or parked calls at a legacy server
// for many clients without sessions.
type crowd struct {
	clients              int
	idle, parked, warmed process.Usage
}

// curious is a legacy server that sends elicitation/create in each call of "ask",
// and then waits for the answer.
type curious struct {
	sessions atomic.Int64
	waiting  atomic.Int64
	end      <-chan struct{}
}

func (s *curious) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(io.LimitReader(r.Body, 1<<20))
	if err != nil {
		return
	}
	id := gjson.GetBytes(body, "id").Raw
	switch method := gjson.GetBytes(body, "method").Str; {
	case r.Method == http.MethodDelete:
		s.sessions.Add(-1)
	case r.Method != http.MethodPost:
		w.WriteHeader(http.StatusMethodNotAllowed)
	case method == "initialize":
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Mcp-Session-Id", "c-"+strconv.FormatInt(s.sessions.Add(1), 10))
		fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":{"protocolVersion":%q,"capabilities":{"tools":{}},"serverInfo":{"name":"curious","version":"1"}}}`, id, serverRevision().Name)
	case method == "tools/call" && gjson.GetBytes(body, "params.name").Str == "ask":
		w.Header().Set("Content-Type", "text/event-stream")
		fmt.Fprint(w, "event: message\ndata: "+`{"jsonrpc":"2.0","id":"q","method":"elicitation/create","params":{"message":"Which city?","requestedSchema":{"type":"object","properties":{"city":{"type":"string"}}}}}`+"\n\n")
		if http.NewResponseController(w).Flush() != nil {
			return
		}
		s.waiting.Add(1)
		defer s.waiting.Add(-1)
		select {
		case <-r.Context().Done():
		case <-s.end:
		}
	case method == "tools/call":
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":{"content":[{"type":"text","text":"sunny"}]}}`, id)
	default:
		w.WriteHeader(http.StatusAccepted)
	}
}

// measureCrowd makes n clients leave a question unanswered, and, at another proxy, n
// principals make one call each.
func (l launcher) measureCrowd(ctx context.Context, n int) (*crowd, error) {
	if n == 0 {
		return nil, nil
	}
	c := &crowd{clients: n}
	for _, kind := range []struct {
		tool  string
		is    string
		usage *process.Usage
	}{{"ask", "input_required", &c.parked}, {"tell", "complete", &c.warmed}} {
		if err := l.crowd(ctx, c, kind.tool, kind.is, kind.usage); err != nil {
			return nil, fmt.Errorf("%d clients that %s: %w", n, kind.tool, err)
		}
	}
	return c, nil
}

func (l launcher) crowd(ctx context.Context, c *crowd, tool, is string, usage *process.Usage) error {
	ctx, cancel := context.WithTimeout(ctx, openTime)
	defer cancel()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	server := &curious{end: ctx.Done()}
	s := &http.Server{Handler: server}
	var served sync.WaitGroup
	served.Go(func() { s.Serve(ln) })
	defer served.Wait()
	defer s.Close()
	w, err := l.ours(ctx, "http://"+ln.Addr().String()+"/mcp")
	if err != nil {
		return err
	}
	defer w.proxy.Stop()
	w.speaks = translate.Lookup(translate.Modern())
	if err := readIdle(ctx, []*way{w}); err != nil {
		return err
	}
	c.idle = w.idle
	g, _ := errgroup.WithContext(ctx)
	for first := range openers {
		g.Go(func() error {
			for at := first; at < c.clients; at += openers {
				if err := w.callOnce(at, tool, is); err != nil {
					return err
				}
			}
			return nil
		})
	}
	if err := g.Wait(); err != nil {
		return err
	}
	if got, want := server.waiting.Load(), int64(c.clients); is != "complete" && got != want {
		return fmt.Errorf("%d calls are parked, not %d", got, want)
	}
	if got := server.sessions.Load(); got < int64(c.clients) {
		return fmt.Errorf("%d sessions are open, not %d", got, c.clients)
	}
	select {
	case <-time.After(settle):
	case <-ctx.Done():
		return ctx.Err()
	}
	*usage, err = w.proxy.Usage()
	return err
}

// callOnce makes one call as the user of this number, from an address of its own: dragoman gives one address at
// most half of the calls that may be parked. It returns an error unless the result has the type is.
func (w *way) callOnce(user int, tool, is string) error {
	c, err := connect(w, net.IPv4(127, 1, byte(user>>8), byte(user)))
	if err != nil {
		return err
	}
	defer c.conn.Close()
	c.user = "Bearer user-" + strconv.Itoa(user)
	if err := c.do(c.wrap(fmt.Appendf(nil, `{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":%q,"arguments":{}}}`, user+1, tool))); err != nil {
		return err
	}
	body := c.resp.Body()
	if got := gjson.GetBytes(body, "result.resultType").Str; got != is {
		return fmt.Errorf("status %d, not %s: %.200q", c.resp.StatusCode(), is, body)
	}
	return nil
}

// goals returns the goals for memory in addition to that of an idle proxy.
func (c *crowd) goals() []goal {
	over := func(u process.Usage) float64 { return float64(u.Resident-c.idle.Resident) / 1e6 }
	return []goal{
		{fmt.Sprintf("%d parked questions, MB over idle", c.clients), over(c.parked), 25, 40},
		{fmt.Sprintf("%d principals with a warm session, MB over idle", c.clients), over(c.warmed), 40, 100},
	}
}
