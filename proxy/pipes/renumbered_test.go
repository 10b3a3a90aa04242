package pipes

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/dragoman-proxy/dragoman/proxy/bytes/large"
	"github.com/dragoman-proxy/dragoman/proxy/bytes/sse"
	"github.com/dragoman-proxy/dragoman/proxy/config"
	"github.com/dragoman-proxy/dragoman/proxy/transport/upstream"
	"github.com/dragoman-proxy/dragoman/translate/wire"
)

// texts is the stream of a server that sends these messages, and ends.
type texts struct {
	upstream.Plain
	all []string
}

func (s *texts) Events(yield func(sse.Event, error) bool) {
	for len(s.all) > 0 {
		m := s.all[0]
		if s.all = s.all[1:]; !yield(sse.Event{Data: []byte(m)}, nil) {
			return
		}
	}
	yield(sse.Event{}, io.EOF)
}

func (s *texts) Close() error { return nil }

// taking is a server that takes every message, or fails.
type taking struct {
	pipe
	sent []string
	err  error
}

func (s *taking) Send(_ context.Context, m *upstream.Outgoing) (upstream.Stream, error) {
	s.sent = append(s.sent, string(m.Body))
	return nil, s.err
}

// TestRenumberedMessages: the client gets its own ids, in arrays too, and nothing about requests that are not open.
func TestRenumberedMessages(t *testing.T) {
	request := func(id string) string { return `{"jsonrpc":"2.0","id":` + id + `,"method":"tools/list"}` }
	response := func(id string) string { return `{"jsonrpc":"2.0","id":` + id + `,"result":{}}` }
	const early = `{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":9,"progress":1}}`
	long := strings.Repeat("x", 2*large.Size)
	longResponse := func(id string) string { return `{"jsonrpc":"2.0","id":` + id + `,"result":{"text":"` + long + `"}}` }
	for name, c := range map[string]struct {
		requests, messages, want, dropped []string
	}{
		"a response":             {[]string{`"a"`}, []string{response("1")}, []string{response(`"a"`)}, nil},
		"a second response":      {[]string{`"a"`}, []string{response("1"), response("1")}, []string{response(`"a"`)}, []string{"late_answer"}},
		"an id used again":       {[]string{`"a"`, `"a"`}, []string{response("1"), response("2")}, []string{response(`"a"`)}, []string{"late_answer"}},
		"an error without an id": {[]string{`"a"`}, []string{`{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"m"}}`}, []string{`{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"m"}}`}, nil},
		"not a message":          {nil, []string{`{"id":`}, []string{`{"id":`}, nil},
		"an array": {
			[]string{`"a"`, "7"}, []string{"[" + response("2") + "," + response("5") + "," + early + `,{"x":1},` + response("1") + "]"},
			[]string{"[" + response("7") + `,{"x":1},` + response(`"a"`) + "]"}, []string{"late_answer", "unattributed"},
		},
		"an array without anything": {[]string{`"a"`}, []string{"[" + response("5") + "]", response("1")}, []string{response(`"a"`)}, []string{"late_answer"}},
		"an array that is too long": {[]string{`"a"`}, []string{"[" + strings.Repeat("1,", 10) + response("1") + "]"}, []string{"[" + strings.Repeat("1,", 10) + response("1") + "]"}, nil},
		"a large response":          {[]string{`"a"`, `"b"`}, []string{longResponse("1"), response("2")}, []string{longResponse(`"a"`), response(`"b"`)}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			o, s := &owner{TB: t, memory: large.NewMemory(1 << 20)}, new(taking)
			conn, st := Renumber(s, &texts{all: c.messages}, nil, config.Limits{Batch: 10}, o)
			for i, id := range c.requests {
				if _, err := conn.Send(t.Context(), &upstream.Outgoing{Body: []byte(request(id)), Request: true}); err != nil || s.sent[i] != request(fmt.Sprint(i+1)) {
					t.Fatal(s.sent, err)
				}
			}
			var got []string
			for e, err := range st.Events {
				if err == io.EOF {
					break
				}
				if err != nil {
					t.Fatal(err)
				}
				got = append(got, string(e.Data))
			}
			if !slices.Equal(got, c.want) || !slices.Equal(o.dropped, c.dropped) {
				t.Errorf("got  %.300q, dropped %q\nwant %.300q, dropped %q", got, o.dropped, c.want, c.dropped)
			}
		})
	}
}

// TestRenumberedRequestsOfAnySize: a large request is copied with room of the budget, and fails without.
func TestRenumberedRequestsOfAnySize(t *testing.T) {
	o, s := &owner{TB: t, memory: large.NewMemory(1 << 20)}, new(taking)
	conn, _ := Renumber(s, &texts{}, nil, config.Limits{Batch: 10}, o)
	text := strings.Repeat("x", 2*large.Size)
	body := func(id string) []byte {
		return []byte(`{"jsonrpc":"2.0","id":` + id + `,"method":"tools/call","params":{"name":"` + text + `"}}`)
	}
	send := func(ctx context.Context, id string) error {
		_, err := conn.Send(ctx, &upstream.Outgoing{Body: body(id), Request: true})
		return err
	}
	if err := send(t.Context(), `"a"`); err != nil || s.sent[0] != string(body("1")) {
		t.Errorf("%v, sent %.60q", err, s.sent)
	}
	if err := o.memory.Budget.Take(t.Context(), large.RequestCopy, 2<<20); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	left := errors.New("the client has left")
	cancel(left)
	if err := send(ctx, `"b"`); !errors.Is(err, left) || len(s.sent) != 1 {
		t.Errorf("%v, %d messages sent", err, len(s.sent))
	}
	key := func(id string) string { return string(wire.AppendIDKey(nil, []byte(id))) }
	if conn.GivenKey(key(`"a"`)) == "" {
		t.Error("the request that was sent is not open")
	}
	if given := conn.GivenKey(key(`"b"`)); given != "" {
		t.Errorf("a request that was not sent is open as %s", given)
	}
	if _, err := conn.Send(t.Context(), &upstream.Outgoing{Body: []byte(`{"id":1}`), Request: true}); err == nil || len(s.sent) != 1 {
		t.Errorf("%v, %d messages sent", err, len(s.sent))
	}
}
