package cost

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/tidwall/gjson"

	"github.com/dragoman-proxy/dragoman/bench/histogram"
	"github.com/dragoman-proxy/dragoman/bench/measure/replicas"
	"github.com/dragoman-proxy/dragoman/translate"
)

// storing measures what a store that replicas share costs the calls that need it, beside a call that needs none. An ordinary call does not
// use it, as a test of proxy/tests says.
func (c *comparison) storing(ctx context.Context) error {
	engine, err := replicas.StartEngine(ctx, c.dir)
	if err != nil {
		return err
	}
	defer engine.Stop()
	s, err := replicas.Start(ctx, replicas.Plan{Binary: c.dragoman, Dir: c.dir, Replicas: 2, Server: translate.Latest().Name, Engine: engine})
	if err != nil {
		return err
	}
	defer s.Close()
	uses := []*use{{name: "call of an API", tool: "get_free"}, {name: "call of an API with a limit", tool: "get_generous"}, {name: "fetch_more at another replica"}}
	for range c.Rounds {
		for _, u := range uses {
			if err := u.turn(ctx, s, engine, c.Turn); err != nil {
				return fmt.Errorf("%s: %w", u.name, err)
			}
		}
	}
	var lines []string
	for _, u := range uses {
		calls := float64(u.latency.Total())
		lines = append(lines, fmt.Sprintf("%s\t%.3f\t%.3f\t%.2f\t%.1f", u.name, float64(u.latency.Quantile(0.5))/1e6, float64(u.latency.Quantile(0.99))/1e6,
			float64(u.reads)/calls, float64(u.engine.Microseconds())/calls))
	}
	c.table("one at a time\tp50 ms\tp99 ms\tcommands/call, those of scripts too\tengine µs/call", lines)
	return nil
}

// use is one kind of call that may need the store.
type use struct {
	name string
	tool string // of an API; "" for fetch_more of what another replica has cut

	latency histogram.Histogram
	reads   int64         // commands that the engine processed meanwhile
	engine  time.Duration // processor time of the engine
}

// turn makes calls, one after the other, for the length of a turn, and reads what they cost the engine.
func (u *use) turn(ctx context.Context, s *replicas.Service, engine *replicas.Engine, length time.Duration) error {
	reads, before, err := engine.Spent(ctx)
	if err != nil {
		return err
	}
	if err := u.repeat(ctx, s, length); err != nil {
		return err
	}
	readsAfter, after, err := engine.Spent(ctx)
	u.reads += readsAfter - reads
	u.engine += after - before
	return err
}

// written is when an original is in the store: it is written beside the answer.
const written = 2 * time.Millisecond

func (u *use) repeat(ctx context.Context, s *replicas.Service, length time.Duration) error {
	here, err := streamable(s.Replica(0), translate.Oldest())()
	if err != nil {
		return err
	}
	defer here.close()
	call, there := here.tool(u.tool, "{}"), here
	if u.tool == "" {
		c, err := dialHTTP(s.Replica(1), translate.Oldest(), nil)
		if err != nil {
			return err
		}
		defer c.close()
		c.session = here.carrier.(*overHTTP).session
		there = &session{carrier: c, speaks: here.speaks}
	}
	for i, began := -20, time.Now(); ; i++ { // the first ones are not measured
		if u.tool == "" { // a replica keeps what it has fetched: so each original is another one
			if call, err = here.cut(); err != nil {
				return err
			}
			if err := wait(ctx, written); err != nil {
				return err
			}
		}
		from := time.Now()
		body, err := there.exchange(call.message, false)
		if err != nil {
			return err
		}
		took := time.Since(from)
		if !worked(body) {
			return fmt.Errorf("not the answer: %.300q", body)
		}
		if i >= 0 {
			u.latency.Record(took.Nanoseconds())
		}
		if i >= 0 && time.Since(began) > length || ctx.Err() != nil {
			return ctx.Err()
		}
	}
}

// worked reports whether a call has a result that is not an error, nor one of an API or of fetch_more.
func worked(body []byte) bool {
	text := gjson.GetBytes(body, "result.content.0.text").Str
	return text != "" && !gjson.GetBytes(body, "result.isError").Bool() && !strings.HasPrefix(text, `{"success":false`) && !strings.HasPrefix(text, "CURSOR_")
}

// cut makes a call whose result is cut, and returns the call of fetch_more that continues it.
func (s *session) cut() (*call, error) {
	body, err := s.exchange(s.tool("long", `{"text":"measure"}`).message, false)
	if err != nil {
		return nil, err
	}
	for _, one := range gjson.GetBytes(body, "result.content.#.text").Array() {
		if _, after, ok := strings.Cut(one.Str, "Next: fetch_more "); ok {
			return s.tool("fetch_more", strings.TrimSuffix(after, "]")), nil
		}
	}
	return nil, fmt.Errorf("the result was not cut: %.300q", body)
}
