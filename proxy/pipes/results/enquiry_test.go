package results

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/tidwall/gjson"
	"pgregory.net/rapid"

	"github.com/dragoman-proxy/dragoman/proxy/bytes/sse"
	"github.com/dragoman-proxy/dragoman/proxy/transport/upstream"
	"github.com/dragoman-proxy/dragoman/translate/wire"
)

// TestCachedResultsAreValid checks this for any order of requests, changes and times:
// each result was made for the same request, for the same principal or for all, is not
// older than the server allows, and came after the last change that was reported.
func TestCachedResultsAreValid(t *testing.T) {
	type version struct {
		who, uri string
		public   bool
		made     time.Time
		number   int
	}
	rapid.Check(t, func(t *rapid.T) {
		bounds := Bounds{Bytes: int64(rapid.IntRange(1, 8<<10).Draw(t, "bytes")), Entries: rapid.IntRange(1, 8).Draw(t, "entries")}
		c := New(func() Bounds { return bounds })
		now := time.Unix(1_800_000_000, 0)
		c.Now = func() time.Time { return now }
		uris := rapid.SampledFrom([]string{"u:1", "u:1/a", "u:2", "u:3"})
		people := rapid.SampledFrom([]string{"ada", "eve", ""})
		var versions []version
		changed := map[string]int{} // how many versions there were at the last change
		const ttl = 10 * time.Second
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			switch rapid.IntRange(0, 9).Draw(t, "step") {
			case 0:
				now = now.Add(time.Duration(rapid.IntRange(0, 12).Draw(t, "seconds")) * time.Second)
			case 1:
				uri := uris.Draw(t, "changed")
				var m wire.Message
				if err := m.Scan(fmt.Appendf(nil, `{"jsonrpc":"2.0","method":"notifications/resources/updated","params":{"uri":%q}}`, uri), nil); err != nil {
					t.Fatal(err)
				}
				c.Heard(&m)
				changed[uri] = len(versions)
			default:
				who, uri := people.Draw(t, "who"), uris.Draw(t, "uri")
				v := version{who, uri, rapid.Bool().Draw(t, "public"), now, len(versions)}
				scope := "private"
				if v.public {
					scope = "public"
				}
				e := c.Enquire(Lookup{
					Method: wire.ResourcesRead, Digest: sha256.Sum256([]byte(uri)), URI: uri, Principal: who, Realm: who, TTL: AsSaid,
				})
				if err := e.Wait(t.Context()); err != nil {
					t.Fatal(err)
				}
				end := rapid.IntRange(0, 5).Draw(t, "end")
				st, err := e.Stream([]byte("7"), func() (upstream.Stream, error) {
					switch end {
					case 0:
						return nil, errors.New("not sent")
					case 1:
						return upstream.Answered([]byte(`{"jsonrpc":"2.0","id":7,"error":{"code":-32602,"message":"no"}}`)), nil
					case 2:
						return upstream.Answered(nil), nil // it ends without an answer
					}
					versions = append(versions, v)
					return upstream.Answered(fmt.Appendf(nil, `{"jsonrpc":"2.0","id":7,"result":{"n":%d,"ttlMs":%d,"cacheScope":%q}}`, v.number, ttl.Milliseconds(), scope)), nil
				})
				if err != nil {
					continue
				}
				for said, err := range st.Events {
					if err != nil {
						break
					}
					r := gjson.GetBytes(said.Data, "result")
					if !r.Exists() {
						continue
					}
					got := versions[r.Get("n").Int()]
					left := time.Duration(r.Get("ttlMs").Int()) * time.Millisecond
					since := 0
					for other, n := range changed {
						if related(other, uri) {
							since = max(since, n)
						}
					}
					switch {
					case got.uri != uri, got.who != who && !got.public:
						t.Fatalf("%q asks for %s and gets %+v", who, uri, got)
					case got.number < since:
						t.Fatalf("%s has changed since %+v", uri, got)
					case left != got.made.Add(ttl).Sub(now) || left <= 0:
						t.Fatalf("%s are left of %+v", left, got)
					}
				}
				st.Close()
			}
			entries, bytes := c.Size()
			if entries > bounds.Entries || bytes > int(bounds.Bytes) || entries == 0 && bytes != 0 {
				t.Fatalf("%d entries of %d bytes, within %+v", entries, bytes, bounds)
			}
			if len(c.fetches) != 0 || len(c.sent) != 0 {
				t.Fatalf("%d and %d requests are never over", len(c.fetches), len(c.sent))
			}
		}
	})
}

// TestUncachedRequestsAreNotRead: with the cache off, and for a call, a request is not
// read.
func TestUncachedRequestsAreNotRead(t *testing.T) {
	var bounds Bounds
	c := New(func() Bounds { return bounds })
	if n := testing.AllocsPerRun(100, func() {
		if c.Keeps(wire.ToolsList) || c.Keeps(wire.ToolsCall) {
			t.Error("it is on")
		}
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
	bounds = Bounds{Bytes: 1, Entries: 1}
	if !c.Keeps(wire.ToolsList) || c.Keeps(wire.ToolsCall) || c.Keeps(wire.Initialize) {
		t.Error("what is kept is wrong")
	}
}

// TestWaitingEndsWithTheWaitersContext checks that the request goes on nevertheless.
func TestWaitingEndsWithTheWaitersContext(t *testing.T) {
	c := New(func() Bounds { return Bounds{Bytes: 1 << 20, Entries: 9} })
	q := Lookup{Method: wire.ToolsList, TTL: time.Minute}
	first := c.Enquire(q)
	if err := first.Wait(t.Context()); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	why := errors.New("left")
	cancel(why)
	if err := c.Enquire(q).Wait(ctx); !errors.Is(err, why) {
		t.Error(err)
	}
	st, err := c.Enquire(q).Open(t.Context(), []byte("1"), func() (upstream.Stream, error) {
		t.Error("sent")
		return nil, nil
	})
	if err != nil {
		t.Fatal(err)
	}
	st.Close()
	if _, err := upstream.First(st); err == nil {
		t.Error("goes on after its end")
	}
	first.End()
	if len(c.sent) != 0 || len(c.fetches) != 0 {
		t.Error("a request is never over")
	}
}

// interrupted is a stream whose first wait is interrupted.
type interrupted struct {
	upstream.Stream
	again bool
}

func (s *interrupted) Events(yield func(sse.Event, error) bool) {
	if s.again {
		s.Stream.Events(yield)
		return
	}
	s.again = true
	yield(sse.Event{}, sse.ErrInterrupted)
}

// TestAnInterruptedResultIsKept: another goroutine has read it.
func TestAnInterruptedResultIsKept(t *testing.T) {
	c := New(func() Bounds { return Bounds{Bytes: 1 << 20, Entries: 9} })
	q := Lookup{Method: wire.ToolsList, TTL: time.Minute}
	st, err := c.Enquire(q).Open(t.Context(), []byte("1"), func() (upstream.Stream, error) {
		return &interrupted{Stream: upstream.Answered([]byte(`{"jsonrpc":"2.0","id":1,"result":{"tools":[]}}`))}, nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := upstream.First(st); err != sse.ErrInterrupted {
		t.Fatal(err)
	}
	if _, err := upstream.First(st); err != nil {
		t.Fatal(err)
	}
	st.Close()
	if _, err := c.Enquire(q).Open(t.Context(), []byte("2"), func() (upstream.Stream, error) { return nil, errors.New("sent again") }); err != nil {
		t.Error(err)
	}
}
