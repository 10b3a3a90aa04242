package peertest

import (
	"net/http"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/tidwall/gjson"
)

// Message is a message that a server got.
type Message struct {
	Text    string      // "DELETE" for a DELETE, and "GET" for a GET that is a turn
	Target  string      // the target of the HTTP request: "/mcp?key=value"
	Header  http.Header // the HTTP headers
	Session string      // the session of a server that knows its sessions; "" for none
}

// record is what a server got.
type record struct {
	t     *testing.T
	guard sync.Mutex
	got   []Message
	more  chan struct{} // closed when the next message comes; nil if none is awaited
}

func (r *record) add(m Message) (nth int) {
	r.guard.Lock()
	defer r.guard.Unlock()
	r.got = append(r.got, m)
	if r.more != nil {
		close(r.more)
		r.more = nil
	}
	return len(r.got) - 1
}

func (r *record) belongs(nth int, session string) {
	r.guard.Lock()
	defer r.guard.Unlock()
	r.got[nth].Session = session
}

// since returns the messages behind the first n, and a channel that is closed when more come.
func (r *record) since(n int) ([]Message, <-chan struct{}) {
	r.guard.Lock()
	defer r.guard.Unlock()
	if r.more == nil {
		r.more = make(chan struct{})
	}
	return slices.Clone(r.got[n:]), r.more
}

// Heard returns the messages that the server got, in order.
func (r *record) Heard() []Message {
	all, _ := r.since(0)
	return all
}

// Awaits waits for the n-th message, counted from 1, for which is returns true.
func (r *record) Awaits(n int, what string, is func(m string) bool) Message {
	r.t.Helper()
	late := time.After(Patience)
	for seen := 0; ; {
		news, more := r.since(seen)
		for _, m := range news {
			if seen++; is(m.Text) {
				if n--; n == 0 {
					return m
				}
			}
		}
		select {
		case <-more:
		case <-late:
			r.t.Fatalf("never: the server gets %s", what)
		}
	}
}

// Gets waits for the n-th request or notification of a method.
func (r *record) Gets(n int, method string) Message {
	r.t.Helper()
	return r.Awaits(n, method, func(m string) bool { return gjson.Get(m, "method").String() == method })
}

// GetsResponse waits for a response to a request of the server.
func (r *record) GetsResponse(id string) Message {
	r.t.Helper()
	return r.Awaits(1, "a response to "+id, func(m string) bool { return isResponse(m, id) })
}

func isResponse(m, id string) bool {
	return gjson.Get(m, "method").Raw == "" && gjson.Get(m, "id").Raw == id
}

// Of returns the messages of a method that the server got.
func (r *record) Of(method string) (all []Message) {
	for _, m := range r.Heard() {
		if gjson.Get(m.Text, "method").String() == method {
			all = append(all, m)
		}
	}
	return all
}

// In returns the messages of the session with this id.
func (r *record) In(session string) []Message {
	return slices.DeleteFunc(r.Heard(), func(m Message) bool { return m.Session != session })
}

// Count returns how many messages of a method the server got.
func (r *record) Count(method string) int { return len(r.Of(method)) }

// Last returns the newest message that the server got.
func (r *record) Last() Message {
	all := r.Heard()
	return all[len(all)-1]
}
