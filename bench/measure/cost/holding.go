package cost

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"slices"
	"strconv"
	"time"

	"github.com/tidwall/gjson"
	"golang.org/x/sync/errgroup"

	"github.com/dragoman-proxy/dragoman/bench/histogram"
	"github.com/dragoman-proxy/dragoman/bench/measure/process"
	"github.com/dragoman-proxy/dragoman/translate"
)

// What clients leave open: calls whose client disconnects, connections of clients that say nothing, and questions.

const (
	openers = 8                     // clients that are opened at the same time
	settle  = 10 * time.Second      // from opening the last one to the measurement
	pause   = 20 * time.Millisecond // from a call's arrival at the server until its client disconnects
	unseen  = 2 * time.Second       // how long it is waited for the server to notice
)

// leaving measures how soon the server notices that clients disconnect during calls: by a closed connection or a cancellation.
func (c *comparison) leaving(ctx context.Context) error {
	var lines []string
	for _, speaks := range []*translate.Revision{serverRevision(), newest()} {
		some, err := c.leavingAt(ctx, speaks)
		if err != nil {
			return err
		}
		lines = append(lines, some...)
	}
	c.table("a client's leaving\tp50 ms\tmax ms", lines)
	return nil
}

func (c *comparison) leavingAt(ctx context.Context, speaks *translate.Revision) (lines []string, err error) {
	q, stop, err := startQuiet(ctx, speaks, false)
	if err != nil {
		return nil, err
	}
	var ways []*way
	defer func() { closeAll(ways) }()
	defer stop() // before that, because waiting calls would delay the end of the proxies
	clients := map[string]*translate.Revision{dragoman: translate.Oldest(), modernToLegacy: newest()}
	if speaks.Modern {
		clients = map[string]*translate.Revision{modernToModern: newest()}
	}
	number := int64(0)
	for _, name := range slices.Sorted(maps.Keys(clients)) {
		w, err := c.ours(ctx, name, clients[name], q.url)
		if err != nil {
			return nil, err
		}
		ways = append(ways, w)
		var took histogram.Histogram // what was not noticed took as long as it was waited for
		for range c.Leaves {
			number++
			after, err := q.leave(ctx, w, number)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", name, err)
			}
			took.Record(after.Nanoseconds())
		}
		lines = append(lines, fmt.Sprintf("%s\t%.3f\t%.3f", name, float64(took.Quantile(0.5))/1e6, float64(took.Max())/1e6))
		c.goal(name+", leaving known upstream, slowest, ms", float64(took.Max())/1e6, 20, 100)
	}
	return lines, nil
}

// leave makes a call of this number, disconnects, and waits until the server notices.
func (q *quiet) leave(ctx context.Context, w *way, number int64) (after time.Duration, err error) {
	s, err := w.dial()
	if err != nil {
		return 0, err
	}
	defer s.close()
	message := s.tool("wait", fmt.Sprintf(`{"number":%d}`, number)).message
	if err := s.carrier.(*overHTTP).send("POST", "application/json, text/event-stream", message); err != nil {
		return 0, err
	}
	if !await(ctx, q.arrived, number, callTime) {
		return 0, errors.Join(errors.New("the call did not arrive"), ctx.Err())
	}
	if await(ctx, q.left, number, pause) {
		return 0, errors.New("the call ended before its client left")
	}
	began := time.Now()
	s.close()
	await(ctx, q.left, number, unseen)
	return time.Since(began), ctx.Err()
}

// await waits at most limit for a number. It skips the numbers of earlier calls.
func await(ctx context.Context, from <-chan int64, number int64, limit time.Duration) bool {
	end := time.After(limit)
	for {
		select {
		case got := <-from:
			if got == number {
				return true
			}
		case <-end:
			return false
		case <-ctx.Done():
			return false
		}
	}
}

// sleeping measures the memory with clients that stay connected and send nothing: on HTTP+SSE, without and with a GET stream to the
// server for each, and on Streamable HTTP, with a GET stream of each client and one to the server for it.
func (c *comparison) sleeping(ctx context.Context) error {
	sse := fmt.Sprintf("%d idle clients on HTTP+SSE", c.Idle)
	for _, one := range []struct {
		what         string
		open         func(url string) (*session, error)
		streams      bool
		reach, limit float64
	}{
		{sse + ", MB", sleeperSSE, false, 65, 120},
		{sse + ", each with a stream to the server, MB", sleeperSSE, true, 120, 250},
		{fmt.Sprintf("%d idle clients with a GET stream, each with one to the server, MB", c.Idle), sleeperHTTP, true, 80, 120},
	} {
		used, err := c.sleep(ctx, one.open, one.streams)
		if err != nil {
			return fmt.Errorf("%s: %w", one.what, err)
		}
		c.goal(one.what, float64(used.Resident)/1e6, one.reach, one.limit)
	}
	return nil
}

func (c *comparison) sleep(ctx context.Context, sleeper func(url string) (*session, error), streams bool) (u process.Usage, err error) {
	q, stop, err := startQuiet(ctx, serverRevision(), streams)
	if err != nil {
		return u, err
	}
	defer stop()
	p, err := c.serve(ctx, "--upstream", q.url)
	if err != nil {
		return u, err
	}
	defer p.Stop()
	clients := make([]*session, c.Idle)
	defer func() {
		for _, s := range clients {
			if s != nil {
				s.close()
			}
		}
	}()
	err = inOpeners(c.Idle, func(i int) (err error) {
		clients[i], err = sleeper(p.URL())
		return err
	})
	if err != nil {
		return u, err
	}
	for end := time.Now().Add(callTime); streams && q.held.Load() < int64(c.Idle); {
		if err := wait(ctx, 10*time.Millisecond); err != nil || time.Now().After(end) {
			return u, fmt.Errorf("%d of the streams to the server are open", q.held.Load())
		}
	}
	if err := c.calm(ctx, settle); err != nil {
		return u, err
	}
	u, err = p.Usage()
	if want := c.Idle + int(q.held.Load()); err == nil && u.Files < want {
		err = fmt.Errorf("only %d files are open, of %d connections", u.Files, want)
	}
	return u, err
}

// inOpeners calls do for each number below n, several at a time.
func inOpeners(n int, do func(i int) error) error {
	var g errgroup.Group
	g.SetLimit(openers)
	for i := range n {
		g.Go(func() error { return do(i) })
	}
	return g.Wait()
}

// sleeperSSE is a client of HTTP+SSE that has nothing open but its stream.
func sleeperSSE(url string) (*session, error) {
	s, err := dialer(endpoint(url, translate.Oldest()), translate.Oldest())()
	if err == nil {
		s.carrier.(*overSSE).post.close()
	}
	return s, err
}

// sleeperHTTP is a client of Streamable HTTP whose connection has a GET stream.
func sleeperHTTP(url string) (*session, error) {
	s, err := streamable(url, translate.Oldest())()
	if err == nil {
		_, err = s.carrier.(*overHTTP).listen()
	}
	return s, err
}

// crowd measures the memory over that of an idle proxy while dragoman holds something at a server with sessions for many clients without
// sessions: calls that wait for an answer of their user, and, at another proxy, a session for each principal.
func (c *comparison) crowd(ctx context.Context) error {
	for _, one := range []struct {
		tool, is, what string
		reach, limit   float64
	}{
		{"ask", "input_required", "parked questions", 25, 40},
		{"tell", "complete", "principals with a warm session", 40, 100},
	} {
		used, err := c.hold(ctx, one.tool, one.is)
		if err != nil {
			return fmt.Errorf("%d %s: %w", c.Users, one.what, err)
		}
		c.goal(fmt.Sprintf("%d %s, MB over idle", c.Users, one.what), float64(used)/1e6, one.reach, one.limit)
	}
	return nil
}

func (c *comparison) hold(ctx context.Context, tool, is string) (over int64, err error) {
	q, stop, err := startQuiet(ctx, serverRevision(), false)
	if err != nil {
		return 0, err
	}
	defer stop()
	w, err := c.ours(ctx, dragoman, newest(), q.url)
	if err != nil {
		return 0, err
	}
	defer w.close()
	if err := c.readIdle(ctx, w); err != nil {
		return 0, err
	}
	if err := inOpeners(c.Users, func(i int) error { return callOnce(w.url, i, tool, is) }); err != nil {
		return 0, err
	}
	if got := q.held.Load(); is != "complete" && got != int64(c.Users) {
		return 0, fmt.Errorf("%d calls are parked", got)
	}
	if got := q.sessions.Load(); got < int64(c.Users) {
		return 0, fmt.Errorf("%d sessions are open", got)
	}
	if err := c.calm(ctx, settle); err != nil {
		return 0, err
	}
	used, err := w.resident()
	return used - w.idle, err
}

// callOnce makes one call as the user of this number, from an address of its own: dragoman gives one address at
// most half of the calls that may be parked. It returns an error unless the result has the type is.
func callOnce(url string, user int, tool, is string) error {
	c, err := dialHTTP(url, newest(), &net.TCPAddr{IP: net.IPv4(127, 1, byte(user>>8), byte(user))})
	if err != nil {
		return err
	}
	defer c.close()
	c.user = "Bearer user-" + strconv.Itoa(user)
	s := &session{carrier: c, speaks: newest(), capabilities: `{"elicitation":{}}`}
	body, err := s.exchange(s.tool(tool, "{}").message, false)
	if err == nil && gjson.GetBytes(body, "result.resultType").Str != is {
		err = fmt.Errorf("not %s: %.200q", is, body)
	}
	return err
}
