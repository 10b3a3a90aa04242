package modernclient

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tidwall/gjson"

	"github.com/dragoman-proxy/dragoman/proxy/bridge/outbox"
	"github.com/dragoman-proxy/dragoman/proxy/config"
	"github.com/dragoman-proxy/dragoman/proxy/ops/report"
	"github.com/dragoman-proxy/dragoman/proxy/protocol/crossing"
	"github.com/dragoman-proxy/dragoman/proxy/protocol/mcp"
	"github.com/dragoman-proxy/dragoman/translate/wire"
)

// TestClientIsToldOfAllThatItMayHaveMissed, however much it has subscribed to.
func TestClientIsToldOfAllThatItMayHaveMissed(t *testing.T) {
	l := &listener{id: []byte("1"), box: outbox.New(), wants: map[wire.Method]bool{}}
	for _, n := range listenable {
		l.wants[n.method] = true
	}
	for n := range maxListened {
		l.uris = append(l.uris, fmt.Sprintf(`"a:%d"`, n))
	}
	var s listeners
	s.add(l)
	told := map[string]bool{}
	for range 2 { // the client fetches nothing in between
		s.missed()
	}
	for l.box.Waiting() {
		m, _, err := l.box.Take(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		told[string(m.Body)] = true
	}
	if len(told) != maxListened+len(listenable) {
		t.Errorf("told of %d of %d", len(told), maxListened+len(listenable))
	}
}

// TestInputsThatAreNone: what is no object of objects is refused, and the server does not get the call.
func TestInputsThatAreNone(t *testing.T) {
	for inputs, good := range map[string]bool{`7`: false, `[]`: false, `"x"`: false, `{"q":7}`: false, `{"q":{},"r":[]}`: false, `{}`: true, `{"q":{}}`: true} {
		f := &fakeServer{answer: func(id, _ string, _ gjson.Result) []string {
			return []string{`{"jsonrpc":"2.0","id":` + id + `,"result":{"content":[]}}`}
		}}
		br := bridgeTo(t, f)
		r, err := br.Begin(t.Context(), request(t, "4", "tools/call", `"name":"t","arguments":{},"inputResponses":`+inputs, `{}`), "", nil)
		if good {
			if err != nil || len(f.said("tools/call")) != 1 {
				t.Errorf("%s: %v, the server got %q", inputs, err, f.sent)
			} else if _, err := r.Answer(nil); err != nil {
				t.Errorf("%s: %v", inputs, err)
			}
		} else if report.FailureOf(err).Cause != mcp.InputsInvalid || len(f.sent) > 0 {
			t.Errorf("%s: %v, the server got %q", inputs, err, f.sent)
		}
		if r != nil {
			r.End()
		}
	}
}

// TestSessionsOfAllPrincipalsAreBounded: a place becomes free when another session is not used any more, and not before.
func TestSessionsOfAllPrincipalsAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		br := bridgeTo(t, &fakeServer{answer: answers}, func(c *config.Config) { c.Bridge.MaxSessions = 2 })
		get := func(ctx context.Context, who string) (*pooledSession, error) {
			return br.pool.get(caller{ctx: ctx, q: request(t, "1", "tools/list", "", `{}`), who: who})
		}
		var open []*pooledSession
		for n := range 2 {
			b, err := get(t.Context(), fmt.Sprint(n))
			if err != nil {
				t.Fatal(err)
			}
			open = append(open, b)
		}
		left := errors.New("the client has left")
		ctx, cancel := context.WithCancelCause(t.Context())
		time.AfterFunc(time.Millisecond, func() { cancel(left) })
		if _, err := get(ctx, "2"); !errors.Is(err, left) {
			t.Errorf("one more while all are used: %v", err)
		}
		br.pool.release(open[0])
		b, err := get(t.Context(), "2")
		if err != nil {
			t.Fatal(err)
		}
		if br.pool.servers.size != 2 {
			t.Errorf("%d sessions", br.pool.servers.size)
		}
		br.pool.release(b)
		br.pool.release(open[1])
	})
}

// TestAnswersToQuestionsThatAreOver: the server may ask another question under the id of one that is over.
func TestAnswersToQuestionsThatAreOver(t *testing.T) {
	f := &fakeServer{answer: answers}
	b := session(t, bridgeTo(t, f), "alice")
	over := new(atomic.Bool)
	var e crossing.Crossing
	e.Keep(wire.Request, wire.ElicitationCreate, []byte("1"), []byte(`{}`), over)
	q := e.TakeQuestions()[0]
	const answer = `{"jsonrpc":"2.0","id":1,"result":{"action":"accept"}}`
	for n, is := range []bool{false, true} {
		over.Store(is)
		if err := b.deliver(&q, []byte(answer), nil); err != nil {
			t.Fatal(err)
		}
		if n == 0 && !slices.Contains(f.sent, answer) || n == 1 && len(f.sent) != 1 {
			t.Errorf("over: %t; the server has got %q", is, f.sent)
		}
	}
}
