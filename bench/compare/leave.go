package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"time"

	"github.com/tidwall/gjson"

	"github.com/dragoman-proxy/dragoman/bench/histogram"
)

const (
	quiet  = 20 * time.Millisecond // from a call's arrival to its client's leaving
	unseen = 2 * time.Second       // after which a leaving counts as not noticed
)

// notice is how soon the server knew that clients had left.
type notice struct {
	latency histogram.Histogram
	missed  int
}

// patient is a server whose calls wait until their client leaves: until their
// connection is closed, or they are cancelled.
type patient struct {
	arrived chan int64 // ids of calls
	left    chan int64
	end     <-chan struct{}
}

func (p *patient) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(io.LimitReader(r.Body, 1<<20))
	if err != nil {
		return
	}
	switch method := gjson.GetBytes(body, "method").Str; {
	case r.Method != http.MethodPost:
		w.WriteHeader(http.StatusMethodNotAllowed)
	case method == "initialize":
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Mcp-Session-Id", "9a1e")
		fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":{"protocolVersion":%q,"capabilities":{"tools":{}},"serverInfo":{"name":"patient","version":"1"}}}`,
			gjson.GetBytes(body, "id").Raw, serverRevision().Name)
	case method == "tools/call":
		id := gjson.GetBytes(body, "id").Int()
		p.tell(p.arrived, id)
		select {
		case <-r.Context().Done():
			p.tell(p.left, id)
		case <-p.end:
		}
	case method == "notifications/cancelled":
		p.tell(p.left, gjson.GetBytes(body, "params.requestId").Int())
		w.WriteHeader(http.StatusAccepted)
	default:
		w.WriteHeader(http.StatusAccepted)
	}
}

func (p *patient) tell(c chan<- int64, id int64) {
	select {
	case c <- id:
	case <-p.end:
	}
}

// measureLeaving has clients leave, leaves of them on each way.
func (l launcher) measureLeaving(ctx context.Context, leaves int) (map[string]*notice, error) {
	if leaves == 0 {
		return nil, nil
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	p := &patient{arrived: make(chan int64, leaves), left: make(chan int64, leaves), end: ctx.Done()}
	s := &http.Server{Handler: p}
	served := make(chan struct{})
	go func() {
		defer close(served)
		s.Serve(ln)
	}()
	defer func() {
		s.Close()
		<-served
	}()
	ways, err := l.all(ctx, "http://"+ln.Addr().String()+"/mcp")
	defer stopAll(ways)
	defer cancel() // calls that wait would hold the proxies up
	if err != nil {
		return nil, err
	}
	notices := map[string]*notice{}
	id := int64(0)
	for _, w := range ways {
		n := &notice{}
		notices[w.name] = n
		for range leaves {
			if n.missed > 1 {
				break // it never does
			}
			id++
			if err := p.leave(ctx, n, w, id); err != nil {
				return nil, fmt.Errorf("leaving, %s: %w", w.name, err)
			}
		}
	}
	return notices, nil
}

// leave makes call id, leaves, and waits until the server knows.
func (p *patient) leave(ctx context.Context, n *notice, w *way, id int64) error {
	c, err := dial(w)
	if err != nil {
		return err
	}
	defer c.conn.Close()
	request := c.wrap(fmt.Appendf(nil, `{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"wait","arguments":{}}}`, id))
	if _, err := c.conn.Write(request); err != nil {
		return err
	}
	if arrived, err := p.await(ctx, p.arrived, id, callTime); err != nil {
		return err
	} else if !arrived {
		return errors.New("the call did not arrive")
	}
	if early, err := p.await(ctx, p.left, id, quiet); err != nil {
		return err
	} else if early {
		return errors.New("the call ended before its client left")
	}
	began := time.Now()
	c.conn.Close()
	switch left, err := p.await(ctx, p.left, id, unseen); {
	case err != nil:
		return err
	case left:
		n.latency.Record(time.Since(began).Nanoseconds())
	default:
		n.missed++
	}
	return nil
}

// await waits at most limit for id to come. What came late for another is skipped.
func (p *patient) await(ctx context.Context, from <-chan int64, id int64, limit time.Duration) (bool, error) {
	timer := time.NewTimer(limit)
	defer timer.Stop()
	for {
		select {
		case got := <-from:
			if got == id {
				return true, nil
			}
		case <-timer.C:
			return false, nil
		case <-ctx.Done():
			return false, ctx.Err()
		}
	}
}
