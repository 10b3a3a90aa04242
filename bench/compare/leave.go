package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/tidwall/gjson"

	"github.com/dragoman-proxy/dragoman/bench/histogram"
	"github.com/dragoman-proxy/dragoman/translate"
)

const (
	quiet  = 20 * time.Millisecond // from a call's arrival at the server until its client disconnects
	unseen = 2 * time.Second       // the time after which a disconnect counts as not noticed
)

// notice is the time until the server noticed that clients had disconnected.
type notice struct {
	latency histogram.Histogram
	missed  int
}

// patient is a server whose calls wait until their connection is closed or they are
// cancelled. It has sessions unless modern is set.
type patient struct {
	modern  bool
	arrived chan int64 // numbers of calls
	left    chan int64
	end     <-chan struct{}
	calls   sync.Map // the numbers of calls by their request ids
}

func (p *patient) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(io.LimitReader(r.Body, 1<<20))
	if err != nil {
		return
	}
	id := gjson.GetBytes(body, "id").Raw
	switch method := gjson.GetBytes(body, "method").Str; {
	case r.Method != http.MethodPost:
		w.WriteHeader(http.StatusMethodNotAllowed)
	case method == "server/discover" && p.modern:
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":{"resultType":"complete","supportedVersions":[%q],"capabilities":{"tools":{}},"ttlMs":0,"cacheScope":"private"}}`, id, translate.Modern())
	case method == "tools/list":
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":{"resultType":"complete","tools":[{"name":"wait","inputSchema":{"type":"object"}}],"ttlMs":0,"cacheScope":"private"}}`, id)
	case method == "server/discover", method == "initialize" && p.modern:
		w.WriteHeader(http.StatusBadRequest)
	case method == "initialize":
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Mcp-Session-Id", "9a1e")
		fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":{"protocolVersion":%q,"capabilities":{"tools":{}},"serverInfo":{"name":"patient","version":"1"}}}`,
			id, serverRevision().Name)
	case method == "tools/call":
		number := gjson.GetBytes(body, "params.arguments.number").Int()
		p.calls.Store(id, number)
		p.tell(p.arrived, number)
		select {
		case <-r.Context().Done():
			p.tell(p.left, number)
		case <-p.end:
		}
	case method == "notifications/cancelled":
		if number, ok := p.calls.Load(gjson.GetBytes(body, "params.requestId").Raw); ok {
			p.tell(p.left, number.(int64))
		}
		w.WriteHeader(http.StatusAccepted)
	default:
		w.WriteHeader(http.StatusAccepted)
	}
}

func (p *patient) tell(c chan<- int64, number int64) {
	select {
	case c <- number:
	case <-p.end:
	}
}

// measureLeaving measures how soon the server notices that clients disconnect, with leaves clients on each way.
func (l launcher) measureLeaving(ctx context.Context, leaves int) (map[string]*notice, error) {
	if leaves == 0 {
		return nil, nil
	}
	newest := translate.Lookup(translate.Modern())
	notices := map[string]*notice{}
	err := l.leaving(ctx, &patient{}, leaves, notices, func(ctx context.Context, url string) ([]*way, error) {
		ways, err := l.all(ctx, url)
		if err != nil {
			return ways, err
		}
		w, err := l.crossing(ctx, modernToLegacy, newest, url)
		return append(ways, w...), err
	})
	if err != nil {
		return nil, err
	}
	err = l.leaving(ctx, &patient{modern: true}, leaves, notices, func(ctx context.Context, url string) ([]*way, error) {
		return l.crossing(ctx, modernToModern, newest, url)
	})
	return notices, err
}

// leaving makes clients disconnect during calls of p, on the ways that start creates.
func (l launcher) leaving(ctx context.Context, p *patient, leaves int, notices map[string]*notice, start func(ctx context.Context, url string) ([]*way, error)) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	p.arrived, p.left, p.end = make(chan int64, leaves), make(chan int64, leaves), ctx.Done()
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
	ways, err := start(ctx, "http://"+ln.Addr().String()+"/mcp")
	defer stopAll(ways)
	defer cancel() // because waiting calls would delay the end of the proxies
	if err != nil {
		return err
	}
	number := int64(0)
	for _, w := range ways {
		n := &notice{}
		notices[w.name] = n
		for range leaves {
			if n.missed > 1 {
				break // it never does
			}
			number++
			if err := p.leave(ctx, n, w, number); err != nil {
				return fmt.Errorf("leaving, %s: %w", w.name, err)
			}
		}
	}
	return nil
}

// leave makes a call of this number, disconnects, and waits until the server notices.
func (p *patient) leave(ctx context.Context, n *notice, w *way, number int64) error {
	c, err := dial(w)
	if err != nil {
		return err
	}
	defer c.conn.Close()
	request := c.wrap(fmt.Appendf(nil, `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"wait","arguments":{"number":%d}}}`, number))
	if _, err := c.conn.Write(request); err != nil {
		return err
	}
	if arrived, err := p.await(ctx, p.arrived, number, callTime); err != nil {
		return err
	} else if !arrived {
		return errors.New("the call did not arrive")
	}
	if early, err := p.await(ctx, p.left, number, quiet); err != nil {
		return err
	} else if early {
		return errors.New("the call ended before its client left")
	}
	began := time.Now()
	c.conn.Close()
	switch left, err := p.await(ctx, p.left, number, unseen); {
	case err != nil:
		return err
	case left:
		n.latency.Record(time.Since(began).Nanoseconds())
	default:
		n.missed++
	}
	return nil
}

// await waits at most limit for a number. It skips the numbers of earlier calls.
func (p *patient) await(ctx context.Context, from <-chan int64, number int64, limit time.Duration) (bool, error) {
	timer := time.NewTimer(limit)
	defer timer.Stop()
	for {
		select {
		case got := <-from:
			if got == number {
				return true, nil
			}
		case <-timer.C:
			return false, nil
		case <-ctx.Done():
			return false, ctx.Err()
		}
	}
}
