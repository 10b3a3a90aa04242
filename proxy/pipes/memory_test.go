package pipes

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/tidwall/gjson"
)

// TestMemoryOfSubscriptions: what the server has refused is not asked for again.
func TestMemoryOfSubscriptions(t *testing.T) {
	var y Memory
	y.Note([]byte(`{"jsonrpc":"2.0","method":"notifications/initialized"}`))
	ask := func(id, uri string) {
		y.Note([]byte(`{"jsonrpc":"2.0","id":` + id + `,"method":"resources/subscribe","params":{"uri":"` + uri + `"}}`))
	}
	accepted := func(id string) { y.Answered([]byte(`{"jsonrpc":"2.0","id":` + id + `,"result":{}}`)) }
	refused := func(id string) {
		y.Answered([]byte(`{"jsonrpc":"2.0","id":` + id + `,"error":{"code":-32002,"message":"no"}}`))
	}
	kept := func(want ...string) {
		t.Helper()
		var got []string
		messages, _ := y.Replay()
		for _, m := range messages[1:] {
			got = append(got, gjson.GetBytes(m, "params.uri").String())
		}
		slices.Sort(got)
		if !slices.Equal(got, want) {
			t.Errorf("got %q, want %q", got, want)
		}
	}
	ask("1", "a:accepted")
	accepted("1")
	ask(`"x"`, "a:accepted") // once more
	refused(`"x"`)
	ask("2", "a:refused")
	refused("2.0") // the same number
	ask("3", "a:both")
	ask("4", "a:both")
	refused("3")
	accepted("4")
	ask("5", "a:unanswered")
	refused("99")
	y.Answered([]byte(`{"jsonrpc":"2.0","id":5,`))
	y.Answered([]byte(`[{"jsonrpc":"2.0","id":5,"error":{"code":1,"message":"no"}}]`))
	kept("a:accepted", "a:both", "a:unanswered")
	refused("5") // of a process that has ended
	if kept("a:accepted", "a:both", "a:unanswered"); y.Waits() {
		t.Error("it waits for responses of an earlier process")
	}

	ask("6", "a:again") // subscribed, ended, subscribed: the refusal is of the first one
	y.Note([]byte(`{"jsonrpc":"2.0","id":7,"method":"resources/unsubscribe","params":{"uri":"a:again"}}`))
	ask("8", "a:again")
	accepted("8")
	refused("6")
	kept("a:accepted", "a:again", "a:both", "a:unanswered")

	const many = 3 * MaxSubscriptions / SubscriptionOverhead
	for n := range many { // refused ones leave room
		ask(fmt.Sprint(n), fmt.Sprintf("b:%d", n))
		refused(fmt.Sprint(n))
	}
	kept("a:accepted", "a:again", "a:both", "a:unanswered")
	for n := range many { // without a response they do not
		ask(fmt.Sprint(n), fmt.Sprintf("c:%d", n))
	}
	if y.size > MaxSubscriptions {
		t.Errorf("%d bytes", y.size)
	}
	unkept := y.Unkept()
	if messages, _ := y.Replay(); len(messages) != 1+4+many-unkept || len(messages) < 1000 || len(y.asked) > 0 {
		t.Errorf("%d messages, waits for %d, %d not kept", len(messages), len(y.asked), unkept)
	}
	for _, s := range y.subscribed {
		y.Note([]byte(`{"jsonrpc":"2.0","id":"u","method":"resources/unsubscribe","params":{"uri":"` + s.uri + `"}}`))
	}
	if y.size != 0 || len(y.subscribed) > 0 {
		t.Errorf("%d bytes without a subscription", y.size)
	}
}

// TestSubscriptionsAreReplayedInOrder: in that of the client's requests, without those that it has ended.
func TestSubscriptionsAreReplayedInOrder(t *testing.T) {
	var y Memory
	y.Note([]byte(`{"jsonrpc":"2.0","method":"notifications/initialized"}`))
	for n := range 1000 {
		y.Note(fmt.Appendf(nil, `{"jsonrpc":"2.0","id":%d,"method":"resources/subscribe","params":{"uri":"a:%d"}}`, n, n))
		y.Answered(fmt.Appendf(nil, `{"jsonrpc":"2.0","id":%d,"result":{}}`, n))
	}
	y.Note([]byte(`{"jsonrpc":"2.0","id":"x","method":"resources/unsubscribe","params":{"uri":"a:0"}}`))
	y.Note([]byte(`{"jsonrpc":"2.0","id":"y","method":"resources/subscribe","params":{"uri":"a:0"}}`)) // now it is the last one
	messages, _ := y.Replay()
	for n, m := range messages[1:] {
		if got, want := gjson.GetBytes(m, "params.uri").String(), fmt.Sprintf("a:%d", (n+1)%1000); got != want {
			t.Fatalf("%d: %s, want %s", n, got, want)
		}
	}
	if len(messages) != 1001 || y.Unkept() != 0 {
		t.Errorf("%d messages", len(messages))
	}
}

// TestMemoryScansNoLargeMessage: while a subscription has no response, and it may never get one, each message of the server is
// looked at, under the lock that each message of the client needs.
func TestMemoryScansNoLargeMessage(t *testing.T) {
	var y Memory
	y.Note([]byte(`{"jsonrpc":"2.0","id":1,"method":"resources/subscribe","params":{"uri":"a:b"}}`))
	y.Answered([]byte(`{"jsonrpc":"2.0","id":1,"error":{"code":1,"message":"` + strings.Repeat("x", maxMemorable) + `"}}`))
	if !y.Waits() {
		t.Error("a large message was scanned")
	}
	if y.Answered([]byte(`{"jsonrpc":"2.0","id":1,"error":{"code":1,"message":"x"}}`)); y.Waits() || len(y.subscribed) > 0 {
		t.Error("the small one was not")
	}
}

// TestMemoryWithoutAnswersWaitsForNone, and keeps nothing of the requests but their subscriptions.
func TestMemoryWithoutAnswersWaitsForNone(t *testing.T) {
	y := Memory{Initialized: true, NoAnswers: true}
	for id := range 2 * MaxSubscriptions / SubscriptionOverhead {
		y.Note(fmt.Appendf(nil, `{"jsonrpc":"2.0","id":%d,"method":"resources/subscribe","params":{"uri":"a:%d"}}`, id, id%3))
	}
	y.Note([]byte(`{"jsonrpc":"2.0","id":"u","method":"resources/unsubscribe","params":{"uri":"a:1"}}`))
	if y.Waits() {
		t.Errorf("it waits for %d responses", len(y.asked))
	}
	if messages, _ := y.Replay(); len(messages) != 3 || y.Unkept() != 0 {
		t.Errorf("%q", messages)
	}
}

// TestMemoryBeforeInitialized: what a server has accepted before notifications/initialized is restored, also for a client that never
// sends that.
func TestMemoryBeforeInitialized(t *testing.T) {
	y := Memory{NoAnswers: true}
	y.Note([]byte(`{"jsonrpc":"2.0","id":1,"method":"resources/subscribe","params":{"uri":"file:///a"}}`))
	messages, own := y.Replay()
	if len(messages) != 1 || len(own) != 1 || !bytes.Contains(messages[0], []byte("resources/subscribe")) {
		t.Errorf("%q", messages)
	}
	y.Note([]byte(`{"jsonrpc":"2.0","method":"notifications/initialized"}`))
	if messages, _ = y.Replay(); len(messages) != 2 || !bytes.Contains(messages[0], []byte("initialized")) {
		t.Errorf("afterwards %q", messages)
	}
}
