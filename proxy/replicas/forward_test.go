package replicas

import (
	"errors"
	"reflect"
	"testing"

	"github.com/tidwall/gjson"

	"github.com/dragoman-proxy/dragoman/proxy/bytes/sse"
	"github.com/dragoman-proxy/dragoman/proxy/protocol/mcp"
	"github.com/dragoman-proxy/dragoman/proxy/transport/downstream"
	"github.com/dragoman-proxy/dragoman/proxy/transport/upstream"
)

// brokenStream gives some events, and then an error.
type brokenStream struct {
	upstream.Stream
	events []string
}

func (s *brokenStream) Events(yield func(sse.Event, error) bool) {
	for _, e := range s.events {
		if !yield(sse.Event{Data: []byte(e)}, nil) {
			return
		}
	}
	yield(sse.Event{}, errors.New("broken"))
}

// told is a client that notes what it is told.
type told struct {
	mcp.Peer
	all []string
}

func (c *told) Send(e sse.Event) error {
	m := gjson.ParseBytes(e.Data)
	c.all = append(c.all, m.Get("id").Raw+" "+m.Get("error.code").Raw)
	return nil
}

// TestALostReplicaEndsEachRequestOfABatch that it has not answered with an error of its own.
func TestALostReplicaEndsEachRequestOfABatch(t *testing.T) {
	const batch = `[{"jsonrpc":"2.0","id":1,"method":"x"},{"jsonrpc":"2.0","method":"y"},{"jsonrpc":"2.0","id":"two","method":"x"},{"jsonrpc":"2.0","id":3,"method":"x"}]`
	begin := func() *answer {
		a := &answer{of: &Replicas{directory: newDirectory(&Options{Report: func(*mcp.Failure, string) string { return "" }})}, lost: mcp.Fail(mcp.PeerLost, "")}
		a.await([]byte(batch))
		return a
	}
	for name, events := range map[string][]string{
		"as it answers":       {`{"jsonrpc":"2.0","method":"notifications/message","params":{}}`, `{"jsonrpc":"2.0","id":"two","result":{}}`},
		"as it answers apart": {`[{"jsonrpc":"2.0","id":"two","result":{}}]`},
	} {
		t.Run(name, func(t *testing.T) {
			a, client := begin(), &told{}
			a.st = &brokenStream{events: events}
			if err := a.pass(client); err != nil {
				t.Error(err)
			}
			if want := []string{"1 -32603", "3 -32603"}; !reflect.DeepEqual(client.all[len(events):], want) {
				t.Errorf("told %q, want %q at the end", client.all, want)
			}
		})
	}
	t.Run("before it answers", func(t *testing.T) {
		a, resp := begin(), new(downstream.Response)
		if err := a.refuse(a.loss(errors.New("broken")), &downstream.Request{}, resp); err != nil {
			t.Error(err)
		}
		if got := gjson.GetBytes(resp.Body, "#.id").Raw; got != `[1,"two",3]` {
			t.Errorf("%s", resp.Body)
		}
	})
	t.Run("before it answers, when the response has begun", func(t *testing.T) {
		a, resp, client := begin(), new(downstream.Response), &told{}
		begun := func() ([]byte, bool) { return nil, true }
		if err := a.refuse(a.loss(errors.New("broken")), &downstream.Request{Settle: begun, Client: client}, resp); err != nil {
			t.Error(err)
		}
		if len(client.all) != 3 || resp.Body != nil {
			t.Errorf("%q %s", client.all, resp.Body)
		}
	})
}
