package doctor

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"time"

	"github.com/tidwall/gjson"

	"github.com/dragoman-proxy/dragoman/proxy/commands/probe"
	"github.com/dragoman-proxy/dragoman/proxy/protocol/mcp"
	"github.com/dragoman-proxy/dragoman/proxy/transport/upstream"
	"github.com/dragoman-proxy/dragoman/translate"
	"github.com/dragoman-proxy/dragoman/translate/wire"
)

const (
	us = `{"name":"dragoman-doctor","version":"1"}`
	// greetingID is the id of the first request, initialize.
	greetingID = "1"
	// endTime bounds the end of a session.
	endTime = 3 * time.Second
)

// declared are the capabilities that the examination declares in a handshake, all there are: servers may list fewer tools
// for clients with fewer. declaredModern are those of requests without a handshake.
var declared, declaredModern = probe.AllCapabilities().JSON(false), probe.AllCapabilities().JSON(true)

// notMessageError is an answer that is not a JSON-RPC message.
type notMessageError struct{ text []byte }

func (e *notMessageError) Error() string {
	return fmt.Sprintf("the answer is not JSON-RPC: %.100q", e.text)
}

// errNoAnswer says that a stream ended before the answer.
var errNoAnswer = errors.New("the server closed the stream without an answer")

// connection is a connection to a server, and what arrives on it.
type connection struct {
	conn    upstream.Conn
	web     *upstream.HTTPSession // conn, over Streamable HTTP; else nil
	arrives chan arrival          // all messages of the server, where it is a pipe; nil if each answer has a stream of its own
	answer  upstream.Stream
	closed  chan struct{}
	opened  time.Time
}

type arrival struct {
	data []byte
	err  error
}

// newConnection returns the connection that b has begun.
func newConnection(b *upstream.Begun, opened time.Time) *connection {
	c := &connection{conn: b.Conn, web: b.Web, answer: b.Answer, closed: make(chan struct{}), opened: opened}
	if b.Standing == nil {
		return c
	}
	c.arrives = make(chan arrival)
	go func() {
		defer b.Standing.Close()
		for event, err := range b.Standing.Events {
			select {
			case c.arrives <- arrival{bytes.Clone(event.Data), err}:
			case <-c.closed:
				return
			}
			if err != nil {
				return
			}
		}
	}()
	return c
}

func (c *connection) close() {
	close(c.closed)
	if c.answer != nil {
		c.answer.Close()
	}
	ctx, cancel := context.WithTimeout(context.Background(), endTime)
	defer cancel()
	c.conn.Close(ctx) //nolint:errcheck // the examination is over
}

// next returns the next text of the server, on st if that is not nil.
func (c *connection) next(ctx context.Context, st upstream.Stream) ([]byte, error) {
	if st != nil {
		event, err := upstream.First(st)
		return event.Data, err
	}
	select {
	case a := <-c.arrives:
		return a.data, a.err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// await returns the response to the request with this id, or an error response without an id. It answers what the server asks
// meanwhile.
func (c *connection) await(ctx context.Context, st upstream.Stream, id string) ([]byte, error) {
	for {
		text, err := c.next(ctx, st)
		switch {
		case errors.Is(err, io.EOF):
			return nil, errNoAnswer
		case err != nil:
			return nil, err
		case len(bytes.TrimSpace(text)) == 0:
			continue // an event that only has an id
		case !json.Valid(text):
			return nil, &notMessageError{bytes.Clone(text)}
		}
		all := []gjson.Result{gjson.ParseBytes(text)}
		if all[0].IsArray() {
			all = all[0].Array()
		}
		for _, m := range all {
			switch about := m.Get("id"); {
			case m.Get("method").Exists():
				c.reply(ctx, m)
			case m.Get("jsonrpc").Str != "2.0":
				return nil, &notMessageError{[]byte(m.Raw)}
			case about.Raw == id, m.Get("error").Exists() && about.Type == gjson.Null:
				return []byte(m.Raw), nil
			}
		}
	}
}

// reply answers a request of the server: a ping, or with what is empty or refused.
func (c *connection) reply(ctx context.Context, m gjson.Result) {
	id := m.Get("id")
	if !id.Exists() {
		return
	}
	body := mcp.AppendError(nil, []byte(id.Raw), mcp.CodeMethodNotFound, "Method not found", nil)
	switch m.Get("method").Str {
	case "ping":
		body = mcp.AppendResult(nil, []byte(id.Raw), `{}`)
	case "roots/list":
		body = mcp.AppendResult(nil, []byte(id.Raw), `{"roots":[]}`)
	}
	c.conn.Send(ctx, &upstream.Outgoing{Body: body}) //nolint:errcheck // the wait for the answer fails as well
}

// session is a connection whose server has answered initialize or server/discover.
type session struct {
	*connection
	revision *translate.Revision
	result   gjson.Result  // of initialize, or of server/discover
	took     time.Duration // until the answer
	asked    int
}

// ask sends a request and returns the response, a result or an error.
func (s *session) ask(ctx context.Context, method, params string) (gjson.Result, error) {
	s.asked++
	id := strconv.Itoa(100 + s.asked)
	return s.request(ctx, id, method, params)
}

func (s *session) request(ctx context.Context, id, method, params string) (gjson.Result, error) {
	out := &upstream.Outgoing{Request: true}
	if s.revision.Modern {
		meta := fmt.Sprintf(`"_meta":{%q:%q,%q:%s,%q:%s}`, mcp.MetaVersion, s.revision.Name, mcp.MetaClient, us, mcp.MetaCapabilities, declaredModern)
		if params != "{}" {
			meta += ","
		}
		params = "{" + meta + params[1:]
		if s.arrives == nil {
			out.Header = append(out.Header, mcp.Header{Name: "Mcp-Method", Value: method})
			if name := gjson.Get(params, "name").Str; method == "tools/call" {
				out.Header = append(out.Header, mcp.Header{Name: "Mcp-Name", Value: name})
			}
		}
	}
	out.Body = fmt.Appendf(nil, `{"jsonrpc":"2.0","id":%s,"method":%q,"params":%s}`, id, method, params)
	st, err := s.conn.Send(ctx, out)
	if err != nil {
		return gjson.Result{}, err
	}
	if st != nil {
		defer st.Close()
	}
	answer, err := s.await(ctx, st, id)
	if err != nil {
		return gjson.Result{}, err
	}
	return gjson.Parse(string(answer)), nil
}

// lists reads all pages of the lists that the server has.
func (s *session) lists(ctx context.Context) ([]probe.List, error) {
	all, err := probe.Read(s.result.Get("capabilities"), s.revision, probe.Lists(), func(l *probe.List, params string) ([]byte, error) {
		m, err := s.ask(ctx, l.Method.String(), params)
		if err != nil {
			return nil, err
		}
		if refusal := m.Get("error"); refusal.Exists() {
			return nil, probe.Refusal("refused: " + refusal.Raw)
		}
		result := m.Get("result")
		if !result.Get(l.Name).IsArray() {
			return nil, fmt.Errorf("the result has no list %q: %.100s", l.Name, result.Raw)
		}
		return []byte(result.Raw), nil
	})
	for _, l := range all {
		if l.Endless != "" {
			return all, fmt.Errorf("%s: %s", l.Method, l.Endless)
		}
	}
	return slices.DeleteFunc(all, func(l probe.List) bool {
		return l.Method == wire.ResourcesTemplatesList && l.Refused != "" // it is optional
	}), err
}
