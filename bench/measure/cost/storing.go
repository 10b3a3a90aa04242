package cost

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/tidwall/gjson"

	"github.com/dragoman-proxy/dragoman/bench/histogram"
	"github.com/dragoman-proxy/dragoman/bench/measure/replicas"
	"github.com/dragoman-proxy/dragoman/translate"
)

// storing measures what a store that replicas share costs: small calls with and without one, and the calls that need it.
func (c *comparison) storing(ctx context.Context) error {
	engine, err := replicas.StartEngine(ctx, c.dir)
	if err != nil {
		return err
	}
	defer engine.Stop()
	key := filepath.Join(c.dir, "store.key")
	if err := os.WriteFile(key, []byte(replicas.SessionKey), 0o600); err != nil {
		return err
	}
	with := []string{"DRAGOMAN_SESSION_KEY_FILE=" + key, "DRAGOMAN_STORE_URL=" + engine.URL()}
	ways, err := c.variants(ctx, []variant{{dragoman, with[:1]}, {"with a store", with}, {"once more", with[:1]}}, small)
	if err != nil {
		return err
	}
	c.goal("with a store: p50 of a small call, ms more", more(ways[1], ways[0], 0.5), 0.005, 0.02)
	c.goal("with a store: p99 of a small call, ms more", more(ways[1], ways[0], 0.99), 0.05, 0.1)
	c.goal("with a store: CPU per small call, × without", ratio(ways[1], ways[0], small), 1.03, 1.1)
	c.goal("without a store once more: CPU per small call, × without", ratio(ways[2], ways[0], small), 1.03, 1.1)
	return c.uses(ctx, engine)
}

// use is one kind of call that may need the store.
type use struct {
	name  string
	tool  string // of an API; "" for fetch_more
	at    int    // the replica at which fetch_more continues what replica 0 has cut
	store bool

	latency histogram.Histogram
	reads   int64         // commands that the engine processed meanwhile
	engine  time.Duration // processor time of the engine
}

// uses measures calls that need the store, in turns with the same calls without a store, and prints what they cost.
func (c *comparison) uses(ctx context.Context, engine *replicas.Engine) error {
	const moreHere, free, limited = "fetch_more at the replica that made the call", "call of an API", "call of an API with a limit"
	uses := []*use{
		{name: free, tool: "get_free"}, {name: limited, tool: "get_generous"}, {name: moreHere},
		{name: free, tool: "get_free", store: true}, {name: limited, tool: "get_generous", store: true}, {name: moreHere, store: true}, {name: "fetch_more at another replica", at: 1, store: true},
	}
	services := map[bool]*replicas.Service{}
	for _, shared := range []bool{false, true} {
		dir, err := os.MkdirTemp(c.dir, "uses")
		if err != nil {
			return err
		}
		plan := replicas.Plan{Binary: c.dragoman, Dir: dir, Replicas: 2, Server: translate.Latest().Name}
		if shared {
			plan.Engine = engine
		}
		if services[shared], err = replicas.Start(ctx, plan); err != nil {
			return err
		}
		defer services[shared].Close()
	}
	for range c.Rounds {
		for _, u := range uses {
			if err := u.turn(ctx, services[u.store], engine, c.Turn); err != nil {
				return fmt.Errorf("%s: %w", u.name, err)
			}
		}
	}
	var lines []string
	for _, u := range uses {
		calls := float64(u.latency.Total())
		line := fmt.Sprintf("%s\tmemory\t%.3f\t%.3f\t\t", u.name, float64(u.latency.Quantile(0.5))/1e6, float64(u.latency.Quantile(0.99))/1e6)
		if u.store {
			line = fmt.Sprintf("%s%.2f\t%.1f", strings.Replace(strings.TrimSuffix(line, "\t"), "memory", "Redis", 1), float64(u.reads)/calls, float64(u.engine.Microseconds())/calls)
		}
		lines = append(lines, line)
	}
	c.table("one at a time\tstate in\tp50 ms\tp99 ms\tcommands/call, those of scripts too\tengine µs/call", lines)
	return nil
}

// turn makes calls, one after the other, for the length of a turn, and reads what they cost the engine.
func (u *use) turn(ctx context.Context, s *replicas.Service, engine *replicas.Engine, length time.Duration) error {
	reads, err := engine.Calls(ctx)
	if err != nil {
		return err
	}
	before, err := engine.Usage()
	if err != nil {
		return err
	}
	if err := u.repeat(ctx, s, length); err != nil {
		return err
	}
	readsAfter, err := engine.Calls(ctx)
	if err != nil {
		return err
	}
	after, err := engine.Usage()
	u.reads += readsAfter - reads
	u.engine += after.CPU - before.CPU
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
	there := here
	if u.at > 0 {
		c, err := dialHTTP(s.Replica(u.at), translate.Oldest(), nil)
		if err != nil {
			return err
		}
		defer c.close()
		c.session = here.carrier.(*overHTTP).session
		there = &session{carrier: c, speaks: here.speaks}
	}
	var call *call
	if u.tool != "" {
		call = here.tool(u.tool, "{}")
	}
	for i, began := -20, time.Now(); ; i++ { // the first ones are not measured
		if u.tool == "" && (call == nil || u.at > 0) { // a replica keeps what it has fetched: so each original is another one
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
