package tests

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/tidwall/gjson"

	"github.com/dragoman-proxy/dragoman/proxy/observe"
	"github.com/dragoman-proxy/dragoman/proxy/transport/downstream"
)

// didWhat returns by whom, and what, was done to a call.
func didWhat(d observe.Detail) (list []string) {
	for _, n := range d.Notes {
		list = append(list, n.By+" "+n.What)
	}
	return list
}

// TestACallThatAnotherReplicaAnswersIsObserved at the replica that got it, too: the row says which one has answered.
func TestACallThatAnotherReplicaAnswersIsObserved(t *testing.T) {
	all := peersOf(t, 2, newSessionless(t, nil))
	session := all[0].initializeWith("2025-11-25", manyCapabilities)
	ring, end := observedBy(all[1].testServer)
	all[1].post(session, strings.Replace(aboutMe, "5", "6", 1))
	all[1].post(session, `{"jsonrpc":"2.0","method":"notifications/roots/list_changed"}`)
	all[1].post(session, `{"jsonrpc":"2.0","id":9,"method":"x/none"}`)
	req, resp := all[1].begin(context.Background(), "POST", session, `{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"ask"}}`)
	e, err := resp.Stream.Next()
	if err != nil {
		t.Fatal(err)
	}
	if calls := rowsOf(ring, "tools/call"); len(calls) != 1 || calls[0].Row.Status != "asking" {
		eventually(t, "the question is seen", func() bool { c := rowsOf(ring, "tools/call"); return len(c) > 0 && c[len(c)-1].Row.Status == "asking" })
	}
	all[1].post(session, result(gjson.GetBytes(e.Data, "id").Raw, `"action":"accept","content":{"n":"Ada"}`))
	all[1].read(req, resp)
	end()
	calls := slices.Concat(rowsOf(ring, "prompts/get"), rowsOf(ring, "tools/call"), rowsOf(ring, "x/none"), rowsOf(ring, "notifications/roots/list_changed"))
	want := map[string]string{"6": "ok", "7": "ok", "9": "error", "": "ok"}
	if len(calls) != len(want) {
		t.Errorf("%d calls", len(calls))
	}
	for _, d := range calls {
		r := d.Row
		if r.Status != want[r.ID] || r.ClientRevision != "2025-11-25" || r.ServerRevision == "" || r.Session == "" || r.Client != "c 1" || r.Transport != "http" {
			t.Errorf("%+v", r)
		}
		if fmt.Sprint(didWhat(d)) != "[replica forwarded]" || !strings.Contains(d.Notes[0].Detail, all[0].at) {
			t.Errorf("%+v", d.Notes)
		}
		if r.ID != "" && r.MS.Server == 0 {
			t.Errorf("waiting for the replica is counted as dragoman's own work: %+v", r.MS)
		}
	}
	if d := calls[0]; len(d.Messages) < 2 || d.Messages[0].Direction != "client-to-server" || d.Messages[len(d.Messages)-1].Kind != "response" {
		t.Errorf("%+v", steps(d))
	}
}

// TestANotificationOfAnotherReplicaIsObserved: what comes on a standing stream that another replica has.
func TestANotificationOfAnotherReplicaIsObserved(t *testing.T) {
	s := newSessionless(t, nil)
	all := peersOf(t, 2, s)
	session := all[0].initializeWith("2025-11-25", manyCapabilities)
	all[0].post(session, `{"jsonrpc":"2.0","id":8,"method":"resources/subscribe","params":{"uri":"u:1"}}`)
	ring, end := observedBy(all[1].testServer)
	ctx, leave := context.WithCancelCause(context.Background())
	_, resp := all[1].begin(ctx, "GET", session, "")
	s.news <- struct{}{}
	if _, err := resp.Stream.Next(); err != nil {
		t.Fatal(err)
	}
	leave(downstream.ErrClientLeft)
	resp.Stream.Close()
	resp.Done()
	end()
	if news := rowsOf(ring, "notifications/resources/updated"); len(news) != 1 || news[0].Row.Kind != "server" || news[0].Row.Status != "ok" || fmt.Sprint(didWhat(news[0])) != "[replica forwarded]" {
		t.Errorf("%+v", news)
	}
}

// TestARetryThatAnotherReplicaAnswersIsObserved once, and so is one whose replica is gone.
func TestARetryThatAnotherReplicaAnswersIsObserved(t *testing.T) {
	all, _, r := askedAt(t, 2)
	ring, end := observedBy(all[1].testServer)
	again := retryOf("8", ada, r)
	all[1].modernly(again)
	all[0].end()
	all[1].modernly(strings.Replace(again, `"id":8`, `"id":9`, 1))
	end()
	calls := rowsOf(ring, "tools/call")
	if len(calls) != 2 || calls[0].Row.Status != "ok" || calls[0].Row.ClientRevision != "2026-07-28" || fmt.Sprint(didWhat(calls[0])) != "[replica forwarded]" {
		t.Fatalf("%+v", calls)
	}
	if lost := calls[1].Row; lost.ID != "9" || lost.Status != "refused" && lost.Status != "failed" {
		t.Errorf("%+v", lost)
	}
}

// TestWhatDragomanAnswersForAHandshakeServerIsObserved: server/discover and subscriptions/listen of modern clients.
func TestWhatDragomanAnswersForAHandshakeServerIsObserved(t *testing.T) {
	for _, stdio := range []bool{false, true} {
		t.Run(fmt.Sprintf("stdio %t", stdio), func(t *testing.T) {
			f := legacyServer(`{"tools":{}}`, nil)
			f.NoGet = true
			srv := front(t, f)
			ring, end := observedBy(srv)
			discover := modernRequestOf("2", "server/discover", meta(`{}`))
			listen := modernRequestOf(`3`, "subscriptions/listen", `"notifications":{"toolsListChanged":true},`+meta(`{}`))
			if stdio {
				client := srv.pipe()
				client.say(discover)
				client.hear()
				client.say(listen)
				client.hear()
				client.hear()
				client.end()
			} else {
				srv.modernly(discover)
				srv.modernly(listen)
			}
			end()
			for method, messages := range map[string]int{"server/discover": 2, "subscriptions/listen": 3} {
				calls := rowsOf(ring, method)
				if len(calls) != 1 {
					t.Fatalf("%s: %d rows", method, len(calls))
				}
				d := calls[0]
				if d.Row.Status != "local" || d.Row.ClientRevision != "2026-07-28" || d.Row.ServerRevision != "2025-11-25" || len(d.Messages) != messages || fmt.Sprint(didWhat(d)) != "[bridge answered]" {
					t.Errorf("%+v", d)
				}
				if last := d.Messages[messages-1]; last.Kind != "response" || last.Method != method || last.Edge != "client" {
					t.Errorf("%q", steps(d))
				}
			}
		})
	}
}

// TestRefusedElementsOfABatchAreObserved one by one.
func TestRefusedElementsOfABatchAreObserved(t *testing.T) {
	for _, stdio := range []bool{false, true} {
		t.Run(fmt.Sprintf("stdio %t", stdio), func(t *testing.T) {
			srv := front(t, newFake(initializing("2025-06-18", obliging)))
			ring, end := observedBy(srv)
			batch := `[1,{"jsonrpc":"2.0","id":7,"method":"tools/list"},{"jsonrpc":"2.0","id":7.0,"method":"tools/list"}]`
			if stdio {
				client := srv.pipe()
				client.say(initialize("2025-03-26", `{}`))
				client.hear()
				client.say(batch)
				client.hear()
				client.end()
			} else {
				srv.post(srv.initialize("2025-03-26"), batch)
			}
			end()
			lists, others := rowsOf(ring, "tools/list"), rowsOf(ring, "")
			if len(lists) != 2 || lists[0].Row.Status == lists[1].Row.Status || len(others) != 1 {
				t.Fatalf("%+v\n%+v", lists, others)
			}
			slices.SortFunc(lists, func(a, b observe.Detail) int { return strings.Compare(a.Row.Status, b.Row.Status) })
			for _, d := range []observe.Detail{lists[1], others[0]} {
				if d.Row.Status != "refused" || d.Row.Code != -32600 || d.Row.Session == "" || len(d.Messages) != 2 || d.Messages[0].Direction != "client-to-server" {
					t.Errorf("%+v", d)
				}
			}
		})
	}
}

// TestTheServersEdgeOfABridgedStandingStreamIsObserved: a notification of a server without a handshake, as it came and as the
// client gets it.
func TestTheServersEdgeOfABridgedStandingStreamIsObserved(t *testing.T) {
	bothInBubbles(t, func(t *testing.T, piped bool) {
		f := subscribable(piped)
		srv := front(t, f)
		ring, end := observedBy(srv)
		session := srv.initialize("2025-11-25")
		ctx, leave := context.WithCancelCause(context.Background())
		_, resp := srv.begin(ctx, "GET", session, "")
		if _, err := resp.Stream.Next(); err != nil {
			t.Fatal(err)
		}
		leave(downstream.ErrClientLeft)
		resp.Stream.Close()
		resp.Done()
		end()
		news := rowsOf(ring, "notifications/tools/list_changed")
		if len(news) != 1 {
			t.Fatalf("%+v", news)
		}
		d := news[0]
		if fmt.Sprint(steps(d)) != "[server > notification 2026-07-28 > client notification 2025-11-25]" || unexplained(d) != 0 || d.Row.Status != "ok" || d.Row.Kind != "server" {
			t.Errorf("%q %+v", steps(d), d)
		}
		if !strings.Contains(string(d.Messages[0].Payload), "subscriptionId") || len(d.Messages[0].Changes) == 0 {
			t.Errorf("%+v", d.Messages)
		}
	})
}

// TestARefusalOnAPipeHasWhatWasRefused, also before there is a session; and each refusal has one row.
func TestARefusalOnAPipeHasWhatWasRefused(t *testing.T) {
	srv := front(t, newFake(initializing("2025-06-18", obliging)))
	ring, end := observedBy(srv)
	client := srv.pipe()
	lines := []string{`{"jsonrpc":"2.0","id":1,"method":"tools/list"}`, `{"jsonrpc":"2.0","id":2`, `[]`, modernRequestOf("4", "tools/list", `"_meta":{"io.modelcontextprotocol/protocolVersion":"2099-01-01"}`)}
	for _, line := range lines {
		client.say(line)
		client.hear()
	}
	client.end()
	end()
	var seen []string
	ring.Each(0, func(r observe.Row, messages []*observe.Message) bool {
		if r.Status != "refused" || len(messages) != 2 || r.Transport != "stdio" || r.Code == 0 {
			t.Errorf("%+v, %d messages", r, len(messages))
			return true
		}
		seen = append(seen, string(messages[0].Raw))
		return true
	})
	if !slices.Equal(seen, lines) {
		t.Errorf("%q", seen)
	}
}
