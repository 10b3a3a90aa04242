package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/tidwall/gjson"

	"github.com/dragoman-proxy/dragoman/bench/compare/process"
)

// The limits of the dragoman that is sent more than it may hold at one time.
const (
	inHand    = 32 << 20
	aboveHand = 100 // MB that it may use in addition
	maxLarge  = 6 << 20
)

// What the servers here do with large calls.
const (
	large  manner = "large"  // answers with as many bytes as the call asks for
	flood  manner = "flood"  // the same, as an SSE event
	weigh  manner = "weigh"  // answers with the size of the argument
	mutter manner = "mutter" // writes much to its standard error, then answers
)

// memory adds a dragoman whose clients send more large messages than it may hold, stall their uploads, and read
// slowly; and one whose own stderr is not read, in front of a command that writes to its standard error all
// the time.
func (s *stage) memory() error {
	at, err := s.server(http.HandlerFunc(serveLarge))
	if err != nil {
		return err
	}
	limits := []string{fmt.Sprintf("DRAGOMAN_LIMITS_IN_HAND=%d", inHand), "DRAGOMAN_LIMITS_UPSTREAM_MESSAGE=8MiB"}
	w, err := s.dragoman("large", limits, "--listen", "127.0.0.1:0", "--upstream", at)
	if err != nil {
		return err
	}
	w.most = float64(inHand)/1e6 + aboveHand
	w.load = func(ctx context.Context, seed uint64) {
		v, done := w.counts.visitor(w.proxy.URL(), seed)
		defer done()
		w.counts.visit(ctx, (&glutton{v}).stay)
	}
	return s.unread()
}

// unread adds a dragoman whose stderr is a full pipe that no process reads.
func (s *stage) unread() error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	p, err := process.StartUnread(s.ctx, s.command([]string{"DRAGOMAN_LOG_LEVEL=debug"}, "--listen", "127.0.0.1:0", "--", self, "-child"))
	if err != nil {
		return err
	}
	w := &subject{name: "unread log", proxy: p, counts: &counts{}}
	s.watched = append(s.watched, w)
	w.load = func(ctx context.Context, seed uint64) {
		v, done := w.counts.visitor(w.proxy.URL(), seed)
		defer done()
		w.counts.visit(ctx, func(ctx context.Context) error {
			if err := v.begin(ctx); err != nil {
				return err
			}
			for range 50 {
				if ctx.Err() != nil {
					break
				}
				v.behave(ctx, mutter)
			}
			_, _, err := v.do(ctx, http.MethodDelete, callTime, "")
			return err
		})
	}
	return nil
}

// serveLarge is a server of large answers.
func serveLarge(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(io.LimitReader(r.Body, 2*maxLarge))
	if err != nil {
		return
	}
	call := read(body)
	w.Header().Set("Content-Type", "application/json")
	switch tool := manner(call.tool); {
	case r.Method == http.MethodGet:
		w.WriteHeader(http.StatusMethodNotAllowed)
	case r.Method == http.MethodDelete:
	case call.id == "":
		w.WriteHeader(http.StatusAccepted)
	case call.method == "initialize":
		w.Header().Set("Mcp-Session-Id", "77")
		io.WriteString(w, call.hello())
	case tool == weigh:
		io.WriteString(w, call.saying(strconv.Itoa(len(call.plain())), ""))
	case tool == flood:
		w.Header().Set("Content-Type", "text/event-stream")
		fmt.Fprintf(w, "data: %s\n\n", call.saying(repeated(call.plain()), ""))
	case tool == large:
		answer := call.saying(repeated(call.plain()), "")
		w.Header().Set("Content-Length", strconv.Itoa(len(answer)))
		io.WriteString(w, answer)
	default:
		behave(w, r, call)
	}
}

// repeated returns what a text "SIZE NAME" asks for: SIZE bytes of "NAME ", repeated.
func repeated(text string) string {
	size, name, _ := strings.Cut(text, " ")
	n, _ := strconv.Atoi(size)
	n = min(n, maxLarge)
	return strings.Repeat(name+" ", n/(len(name)+1)+1)[:n]
}

// glutton is a client that sends and receives large messages.
type glutton struct{ *visitor }

func (g *glutton) stay(ctx context.Context) error {
	if err := g.begin(ctx); err != nil {
		return err
	}
	for range 20 + g.rand.IntN(40) {
		if ctx.Err() != nil {
			return nil
		}
		switch n := g.rand.IntN(100); {
		case n < 25:
			g.swallow(ctx, large)
		case n < 45:
			g.swallow(ctx, flood)
		case n < 65:
			g.upload(ctx)
		case n < 70:
			g.stall(ctx)
		default:
			g.behave(ctx, echo) // small calls must succeed, whatever memory the large ones use
		}
	}
	_, _, err := g.do(ctx, http.MethodDelete, callTime, "")
	return err
}

// upload sends a large argument.
func (g *glutton) upload(ctx context.Context) {
	g.id++
	size := 100<<10 + g.rand.IntN(4<<20)
	body, _, err := g.post(ctx, callTime, callMessage(g.id, weigh, strings.Repeat("u", size)))
	g.judged(ctx, "upload", body, err, strconv.Itoa(size))
}

// judged counts an answer as good if it has this text. An error that says that there is no room is accepted.
func (g *glutton) judged(ctx context.Context, what, body string, err error, text string) {
	got := gjson.Get(answerIn(body), "result.content.0.text")
	switch {
	case ctx.Err() != nil:
	case got.Str == text:
		g.good.Add(1)
		g.note(what)
	case got.Exists():
		g.wrong.Add(1)
		g.show(what+": another answer", fmt.Sprintf("%.100s, not %.100s", got.Str, text))
	case strings.Contains(body, "the memory for messages is full"):
		g.bad.Add(1)
		g.note(what + ": no room")
	default:
		g.failed.Add(1)
		g.show(what, fmt.Sprint(err, " ", body))
	}
}

// swallow calls a tool with a large answer. It reads one answer in five slowly.
func (g *glutton) swallow(ctx context.Context, m manner) {
	g.id++
	text := fmt.Sprintf("%d of-%d", 100<<10+g.rand.IntN(maxLarge-100<<10), g.rand.Uint64())
	ctx, cancel := context.WithTimeout(ctx, callTime)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, g.url, strings.NewReader(callMessage(g.id, m, text)))
	if err != nil {
		return
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Accept", "application/json, text/event-stream")
	r.Header.Set("Mcp-Session-Id", g.session)
	resp, err := g.http.Do(r)
	if err != nil {
		if ctx.Err() == nil {
			g.failed.Add(1)
			g.show(string(m), err.Error())
		}
		return
	}
	defer resp.Body.Close()
	var body bytes.Buffer
	pause := time.Duration(0)
	if g.rand.IntN(5) == 0 {
		pause = 20 * time.Millisecond
	}
	for err == nil {
		_, err = io.CopyN(&body, resp.Body, 128<<10)
		time.Sleep(pause)
	}
	if err == io.EOF {
		err = nil
	}
	g.judged(ctx, string(m), body.String(), err, repeated(text))
}

// stall begins an upload, does not go on with it, and closes the connection after a while.
func (g *glutton) stall(ctx context.Context) {
	at, err := url.Parse(g.url)
	if err != nil {
		return
	}
	var d net.Dialer
	c, err := d.DialContext(ctx, "tcp", at.Host)
	if err != nil {
		return
	}
	defer c.Close()
	g.bad.Add(1)
	g.note("stalled uploads")
	c.SetWriteDeadline(time.Now().Add(time.Second))
	fmt.Fprintf(c, "POST %s HTTP/1.1\r\nHost: %s\r\nContent-Type: application/json\r\nMcp-Session-Id: %s\r\nContent-Length: %d\r\n\r\n%s",
		at.Path, at.Host, g.session, 8<<20, strings.Repeat("s", g.rand.IntN(300<<10)))
	select {
	case <-time.After(time.Duration(g.rand.IntN(3000)) * time.Millisecond):
	case <-ctx.Done():
	}
}
