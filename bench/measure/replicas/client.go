package replicas

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"regexp"
	"strings"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/tidwall/gjson"

	"github.com/dragoman-proxy/dragoman/translate"
)

const (
	flowTime   = 15 * time.Second
	leaveTime  = 12 * time.Second // until a deleted session must be unknown to all replicas
	markTime   = time.Second      // until a deleted session is unknown to all replicas, but for some of them on a busy machine
	recovery   = 7 * time.Second  // after the engine is back: replicas register again, and forget that they did not find each other
	reconnects = 50
)

// client is a published client of one revision that does one thing after the other.
type client struct {
	s        *Service
	revision string
	name     string
	results  *Results
	rand     *rand.Rand

	session *mcp.ClientSession
	close   func()
	n       int
}

// needs says whether a flow depends on what is put into the store during the flow, besides its replicas and the server.
type needs bool

const (
	nothing      needs = false
	fromTheStore needs = true
)

// run makes clients of all revisions, several of each, use a service until ctx ends.
func run(ctx context.Context, s *Service, each int, results *Results) {
	var wg sync.WaitGroup
	for i, revision := range translate.All() {
		for k := range each {
			c := &client{s: s, revision: revision.Name, results: results, name: fmt.Sprintf("%s-%d", revision.Name, k), rand: rand.New(rand.NewPCG(uint64(i), uint64(k)))}
			wg.Go(func() {
				for ctx.Err() == nil {
					c.stay(ctx)
				}
			})
		}
	}
	wg.Wait()
}

func (c *client) modern() bool { return c.revision == translate.Modern() }

// asks reports whether the client's revision has elicitation.
func (c *client) asks() bool { return c.revision >= "2025-06-18" }

func (c *client) text(what string) string {
	c.n++
	return fmt.Sprintf("%s-%s-%d-%d", c.name, what, c.rand.Uint32(), c.n)
}

// try runs a flow, and says whether it is to be counted as a failure if it fails.
func (c *client) try(ctx context.Context, what string, needs needs, flow func(context.Context) error) bool {
	began := time.Now()
	within, cancel := context.WithTimeout(ctx, flowTime)
	defer cancel()
	err := flow(within)
	what = fmt.Sprintf("%s of %s at %s", what, c.revision, c.s.plan.Server)
	engine := c.s.plan.Engine
	switch {
	case err == nil:
		c.results.add(good, what)
	case ctx.Err() != nil:
	case c.s.lost(began):
		c.results.add(excused, what+", while a replica died")
	case needs == fromTheStore && engine.out(began, recovery):
		c.results.add(excused, what+", while the engine was away")
	default:
		c.results.fail(what, fmt.Errorf("%s: %w", c.name, err))
	}
	return err == nil
}

// stay uses the service for the time of a session.
func (c *client) stay(ctx context.Context) {
	if !c.try(ctx, "connect", nothing, c.connect) {
		time.Sleep(50 * time.Millisecond)
		return
	}
	defer func() { c.close() }()
	for range 30 + c.rand.IntN(30) {
		if ctx.Err() != nil {
			return
		}
		switch n := c.rand.IntN(100); {
		case n < 10:
			c.try(ctx, "list", nothing, c.list)
		case n < 20:
			c.try(ctx, "fetch_more", fromTheStore, c.fetchMore)
		case n < 30:
			c.try(ctx, "confirmation", fromTheStore, c.confirm)
		case n < 45:
			c.try(ctx, "limited call", nothing, c.limited)
		case n < 55 && c.asks():
			c.try(ctx, "elicitation", fromTheStore, c.elicit) // where it waits is in the store
		default:
			c.try(ctx, "call", nothing, c.echo)
		}
		select {
		case <-ctx.Done():
		case <-time.After(time.Duration(c.rand.IntN(60)) * time.Millisecond):
		}
	}
	if !c.modern() {
		c.try(ctx, "delete", fromTheStore, c.leave)
	}
}

func (c *client) connect(ctx context.Context) error {
	capabilities := &mcp.ClientCapabilities{}
	handlers := &mcp.ClientOptions{Capabilities: capabilities}
	if c.asks() {
		capabilities.Elicitation = &mcp.ElicitationCapabilities{}
		handlers.ElicitationHandler = func(context.Context, *mcp.ElicitRequest) (*mcp.ElicitResult, error) {
			return &mcp.ElicitResult{Action: "accept", Content: map[string]any{"city": "Rome"}}, nil
		}
	}
	var options *mcp.ClientSessionOptions
	if !c.modern() {
		options = &mcp.ClientSessionOptions{ProtocolVersion: c.revision}
	}
	transport := &http.Transport{DisableCompression: true}
	// Without a standing stream, since the client does not open it again if a balancer cannot serve it.
	to := &mcp.StreamableClientTransport{Endpoint: c.s.URL(), MaxRetries: reconnects, DisableStandaloneSSE: true, HTTPClient: &http.Client{Transport: transport}}
	session, err := mcp.NewClient(&mcp.Implementation{Name: "replicas", Version: "1"}, handlers).Connect(ctx, to, options)
	if err != nil {
		transport.CloseIdleConnections()
		return err
	}
	c.session = session
	c.close = func() {
		_ = session.Close() // again, if the client has left: then it fails
		transport.CloseIdleConnections()
	}
	if got := session.InitializeResult().ProtocolVersion; got != c.revision {
		c.close()
		return fmt.Errorf("the client got revision %s", got)
	}
	return nil
}

// call makes one call, and returns the text of its result.
func (c *client) call(ctx context.Context, tool string, arguments map[string]any) (string, error) {
	res, err := c.session.CallTool(ctx, &mcp.CallToolParams{Name: tool, Arguments: arguments})
	if err != nil {
		return "", err
	}
	var text strings.Builder
	for _, one := range res.Content {
		if t, ok := one.(*mcp.TextContent); ok {
			text.WriteString(t.Text + "\n")
		}
	}
	return strings.TrimSuffix(text.String(), "\n"), nil
}

func (c *client) expect(ctx context.Context, tool, text, want string) error {
	got, err := c.call(ctx, tool, map[string]any{"text": text})
	if err == nil && got != want {
		err = fmt.Errorf("got %.200q, want %q", got, want)
	}
	return err
}

func (c *client) echo(ctx context.Context) error {
	text := c.text("echo")
	return c.expect(ctx, "echo", text, text)
}

func (c *client) elicit(ctx context.Context) error {
	text := c.text("ask")
	return c.expect(ctx, "ask", text, text+" in Rome")
}

func (c *client) list(ctx context.Context) error {
	list, err := c.session.ListTools(ctx, nil)
	if err != nil {
		return err
	}
	found := map[string]bool{}
	for _, t := range list.Tools {
		found[t.Name] = true
	}
	for _, name := range []string{"echo", "long", "get_limited", "delete_item", "fetch_more"} {
		if !found[name] {
			return fmt.Errorf("the list has no %s: %v", name, found)
		}
	}
	return nil
}

var nextCall = regexp.MustCompile(`Next: fetch_more (\{[^}]*\})`)

// fetchMore makes a call whose result is cut, and fetches the rest of it until every line was there.
func (c *client) fetchMore(ctx context.Context) error {
	text := c.text("long")
	got, err := c.call(ctx, "long", map[string]any{"text": text})
	if err != nil {
		return err
	}
	all := got
	for round := 0; ; round++ {
		next := nextCall.FindStringSubmatch(got)
		if next == nil {
			if round == 0 {
				return fmt.Errorf("the result was not cut: %.200q", got)
			}
			break
		}
		if round > longLines {
			return errors.New("fetch_more does not end")
		}
		if got, err = c.call(ctx, "fetch_more", arguments(next[1])); err != nil {
			return fmt.Errorf("fetch_more %s: %w", next[1], err)
		}
		all += "\n" + got
	}
	for i := range longLines {
		if !strings.Contains(all, longLine(text, i)) {
			return fmt.Errorf("line %d was not returned; the last answer is %.200q", i, got)
		}
	}
	return nil
}

func arguments(object string) map[string]any {
	all, _ := gjson.Parse(object).Value().(map[string]any)
	return all
}

// confirm deletes an item with a token, which is then used by two calls at once, and once more.
func (c *client) confirm(ctx context.Context) error {
	id := c.text("item")
	got, err := c.call(ctx, "delete_item", map[string]any{"id": id})
	if err != nil {
		return err
	}
	token := gjson.Get(got, "confirmation.token").Str
	if token == "" {
		return fmt.Errorf("no token: %.200q", got)
	}
	with := map[string]any{"id": id, "_confirmation": token}
	var said [2]string
	var failed [2]error
	var wg sync.WaitGroup
	for i := range said {
		wg.Go(func() { said[i], failed[i] = c.call(ctx, "delete_item", with) })
	}
	wg.Wait()
	if err := errors.Join(failed[:]...); err != nil {
		return err
	}
	if a, b := succeeded(said[0]), succeeded(said[1]); a == b {
		return fmt.Errorf("a token used by two calls at once: %.200q and %.200q", said[0], said[1])
	}
	if got, err = c.call(ctx, "delete_item", with); err != nil {
		return err
	}
	if succeeded(got) {
		return fmt.Errorf("a token worked again: %.200q", got)
	}
	return nil
}

func succeeded(text string) bool { return gjson.Get(text, "success").Bool() }

// limited makes some calls of an operation with a limit. Each is either answered, or refused for the limit.
func (c *client) limited(ctx context.Context) error {
	for range 4 {
		got, err := c.call(ctx, "get_limited", map[string]any{})
		if err != nil {
			return err
		}
		if !succeeded(got) && gjson.Get(got, "error.code").Str != "RATE_LIMIT_EXCEEDED" {
			return fmt.Errorf("got %.300q", got)
		}
	}
	return nil
}

// lateDelete is counted for a deleted session that a replica still knew after markTime.
const lateDelete = "late delete"

// leave deletes the session, and waits until no replica knows it.
func (c *client) leave(ctx context.Context) error {
	id := c.session.ID()
	if err := c.session.Close(); err != nil {
		return fmt.Errorf("close: %w", err)
	}
	for unknown, began := 0, time.Now(); unknown < c.s.plan.Replicas; {
		message := fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"echo","arguments":{"text":%q}}}`, c.name)
		r, err := http.NewRequestWithContext(ctx, http.MethodPost, c.s.URL(), strings.NewReader(message))
		if err != nil {
			return err
		}
		r.Header = http.Header{"Content-Type": {"application/json"}, "Accept": {"application/json, text/event-stream"}, "Mcp-Session-Id": {id}, "Mcp-Protocol-Version": {c.revision}}
		resp, err := http.DefaultClient.Do(r)
		if err != nil {
			return err
		}
		resp.Body.Close()
		took := time.Since(began)
		switch {
		case resp.StatusCode == http.StatusNotFound:
			if unknown++; unknown == c.s.plan.Replicas && took > markTime {
				c.results.add(good, lateDelete)
			}
			continue
		case took > leaveTime:
			return fmt.Errorf("a deleted session got %s", resp.Status)
		}
		unknown = 0
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(20 * time.Millisecond):
		}
	}
	return nil
}
