package inspect

import (
	"bufio"
	"bytes"
	"encoding/json"
	"net"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/valyala/fasthttp"

	"github.com/dragoman-proxy/dragoman/proxy/bytes/unixsocket"
)

// Bounds of the feed.
const (
	maxWatchers = 8
	maxBatch    = 200
	maxUnread   = 256 << 10 // bytes that wait for a watcher; then it is cut off
	tick        = 100 * time.Millisecond
	statsEvery  = 10  // ticks
	quietEvery  = 100 // ticks until a comment
)

// hello is the first event.
type hello struct {
	Version  string `json:"version"`
	Replica  string `json:"replica,omitempty"`
	Started  string `json:"started"`
	Now      string `json:"now"`
	Last     uint64 `json:"last"`
	First    uint64 `json:"first"`
	Payloads string `json:"payloads"`
	File     string `json:"file,omitempty"`
	URL      string `json:"url,omitempty"` // that clients use
}

// enter counts a watcher in, and begins to fill the ring if it is the first. It returns false if there are too many.
func (h *Handler) enter() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.watchers == maxWatchers || h.closed {
		return false
	}
	h.watchers++
	h.feeds.Add(1)
	if h.idle != nil {
		h.idle.Stop()
	}
	if h.detach == nil && h.o.Observer != nil {
		h.attach()
	}
	return true
}

// leave counts a watcher out.
func (h *Handler) leave() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.watchers--
	h.feeds.Done()
	if h.watchers == 0 && !h.closed && !h.o.Keep {
		h.idle = time.AfterFunc(linger, h.rest)
	}
}

// rest stops filling the ring. What is in it stays.
func (h *Handler) rest() {
	h.mu.Lock()
	var detach func()
	if h.watchers == 0 && !h.closed {
		detach, h.detach = h.detach, nil
	}
	h.mu.Unlock()
	if detach != nil {
		detach()
	}
}

// feed answers with a stream of events, which ends when the watcher leaves, does not read, or dragoman stops.
func (h *Handler) feed(c *fasthttp.RequestCtx) {
	after := numberOf(c, "after")
	if started := string(c.QueryArgs().Peek("started")); started != "" && started != h.started() {
		after = 0 // it is a number of another process
	}
	if !h.enter() {
		c.Response.Header.Set(fasthttp.HeaderRetryAfter, "10")
		refuse(c, fasthttp.StatusServiceUnavailable, strconv.Itoa(maxWatchers)+" pages are open already, and that is the most: close one of them")
		return
	}
	c.SetContentType("text/event-stream")
	c.Response.Header.Set("X-Accel-Buffering", "no") // otherwise nginx would hold events back
	c.Response.ImmediateHeaderFlush = true
	f := &feed{h: h, conn: c.Conn(), after: after, address: c.RemoteAddr().String()}
	f.more = sync.NewCond(&f.mu)
	c.SetBodyStreamWriter(f.serve)
}

// feed is one stream. One goroutine makes the events, another one writes them, so that what does not get written can be
// measured.
type feed struct {
	h       *Handler
	conn    net.Conn
	after   uint64
	address string

	mu      sync.Mutex
	more    *sync.Cond
	pending []byte
	over    bool   // nothing more is written
	why     string // why it was cut off
}

func (f *feed) serve(w *bufio.Writer) {
	began := time.Now()
	defer f.h.leave()
	f.tell(Watcher{Address: f.address})
	made := make(chan struct{})
	go func() {
		defer close(made)
		f.make()
	}()
	f.write(w)
	f.end("")
	<-made
	f.tell(Watcher{Address: f.address, Ended: true, For: time.Since(began), Why: f.why})
}

func (f *feed) tell(w Watcher) {
	if f.h.o.Watching != nil {
		f.h.o.Watching(w)
	}
}

// write writes what make makes, until the feed ends or the watcher has left.
func (f *feed) write(w *bufio.Writer) {
	var spare []byte
	for {
		f.mu.Lock()
		for len(f.pending) == 0 && !f.over {
			f.more.Wait()
		}
		chunk := f.pending
		f.pending = spare[:0]
		over := f.over
		f.mu.Unlock()
		if over {
			return
		}
		if _, err := w.Write(chunk); err != nil || w.Flush() != nil {
			return
		}
		spare = chunk
	}
}

// end ends the feed. why is empty if the watcher has left, or dragoman stops.
func (f *feed) end(why string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.over {
		return
	}
	f.over, f.why = true, why
	f.more.Signal()
}

// put hands over text to be written. It returns false after the end of the feed.
func (f *feed) put(text []byte) bool {
	f.mu.Lock()
	f.pending = append(f.pending, text...)
	f.more.Signal()
	slow, over := len(f.pending) > maxUnread, f.over
	f.mu.Unlock()
	if slow && !over {
		f.end("it does not read")
		_ = f.conn.Close() // so that the write under way returns
	}
	return !slow && !over
}

// event appends an event of the stream.
func event(b *bytes.Buffer, name string, v any) {
	data, err := json.Marshal(v)
	if err != nil {
		return
	}
	b.WriteString("event: " + name + "\ndata: ")
	b.Write(data)
	b.WriteString("\n\n")
}

// make makes the events, ten batches a second at most.
func (f *feed) make() {
	h := f.h
	watch := h.o.Ring.Watch(f.after)
	defer watch.Close()
	ticker := time.NewTicker(tick)
	defer ticker.Stop()
	first, last := h.o.Ring.Bounds()
	var b bytes.Buffer
	at := ""
	if h.o.Endpoint != nil {
		at = h.o.Endpoint()
	}
	if !strings.HasPrefix(at, "http") && !unixsocket.Is(at) { // a shim has none
		at = ""
	}
	event(&b, "hello", hello{h.o.Version, h.o.Replica, h.started(), time.Now().UTC().Format(time.RFC3339Nano), last, first, h.o.Payloads, h.o.File, at})
	for n, quiet := 0, 0; ; n++ {
		rows, missed := watch.Next(maxBatch)
		if missed > 0 {
			event(&b, "gap", map[string]uint64{"dropped": missed})
		}
		if len(rows) > 0 {
			event(&b, "rows", map[string]any{"rows": rows})
		}
		if n%statsEvery == 0 {
			l := h.live()
			event(&b, "stats", h.stats(&l))
		}
		if quiet++; quiet == quietEvery {
			b.WriteString(": dragoman is still there\n\n")
			quiet = 0
		}
		if b.Len() > 0 && !f.put(b.Bytes()) {
			return
		}
		b.Reset()
		select {
		case <-ticker.C:
		case <-h.over:
			f.end("")
			return
		}
		f.mu.Lock()
		over := f.over
		f.mu.Unlock()
		if over {
			return
		}
	}
}

// numberOf returns the number that the query has by this name, or 0.
func numberOf(c *fasthttp.RequestCtx, name string) uint64 {
	n, err := strconv.ParseUint(string(c.QueryArgs().Peek(name)), 10, 64)
	if err != nil {
		return 0
	}
	return n
}
