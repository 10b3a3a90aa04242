package main

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"
)

const maxPages = 20

// A pace is how long a client waits.
type pace struct {
	start  time.Duration // for the answer to the first request
	answer time.Duration // for every other answer
	quiet  time.Duration // after it, nothing more comes that belongs to an earlier step
}

var usual = pace{start: 90 * time.Second, answer: 15 * time.Second, quiet: 250 * time.Millisecond}

// A client plays one session, and notes what comes.
type client struct {
	connection
	modern bool // the session has no handshake
	folder folder
	pace   pace
	silent int // requests in a row that had no answer
	notes  *transcript
}

// A connection is a client's way to speak with a server. It notes what the server tells and asks beside its answers. An answer is an
// object with result or error, or with another member that says what came in their place: "failed" if nothing did.
type connection interface {
	// begin begins a session, and reports whether it is one without a handshake.
	begin(limit time.Duration) (answer map[string]any, modern bool)
	request(method string, params map[string]any, limit time.Duration) (answer map[string]any)
	// listen opens a subscription of a client without a handshake, and ends it when it was acknowledged. It returns the answer if
	// there was one before, such as a refusal.
	listen(filter map[string]any) (answer map[string]any)
	// cancel calls a tool, and takes the call back after a while.
	cancel(params map[string]any) (answer map[string]any)
	notify(method string)
	// settle returns when nothing more comes.
	settle()
	close()
}

const noAnswer = "no answer"

// A transcript is what a client got: answers by step, and what came beside them, in order. All of it is JSON.
type transcript struct {
	answers       map[string]any
	notifications map[string]any // lists of parameters by method
	requests      map[string]any // what the server asked, by method
	broken        string         // why the session ended too early, "" if it did not
	modern        bool           // the session had no handshake
}

func newTranscript() *transcript {
	return &transcript{answers: map[string]any{}, notifications: map[string]any{}, requests: map[string]any{}}
}

// The steps that no client makes: that a session ended too early, and that processes are left after its end.
const (
	sessionStep = "session"
	leftStep    = "processes left"
)

// json returns the transcript as one value to compare. Only progress is in order: what else a server sends beside its answers
// comes in another order each time.
func (t transcript) json() map[string]any {
	all := map[string]any{"notifications": t.notifications, "asked": t.requests}
	for method, list := range t.notifications {
		if list, ok := list.([]any); ok && method != "notifications/progress" {
			slices.SortStableFunc(list, func(a, b any) int { return strings.Compare(fmt.Sprint(a), fmt.Sprint(b)) })
		}
	}
	for step, answer := range t.answers {
		all[step] = answer
	}
	if t.broken != "" {
		all[sessionStep] = t.broken
	}
	return all
}

// ask sends a request and notes its answer under the step's name. It returns the result, nil if there was none.
func (c *client) ask(step, method string, params map[string]any) map[string]any {
	if c.notes.broken != "" {
		return nil
	}
	return c.answered(step, c.request(method, params, c.pace.answer))
}

// answered notes an answer, and returns the result in it.
func (c *client) answered(step string, answer map[string]any) map[string]any {
	switch failed, _ := answer["failed"].(string); {
	case failed == "":
		c.silent = 0
	case failed == noAnswer && c.silent == 0:
		c.silent++
	case c.notes.broken == "":
		c.notes.broken = failed
	}
	c.notes.answers[step] = any(answer)
	return resultOf(answer)
}

func (t *transcript) noteTold(method string, params map[string]any) {
	list, _ := t.notifications[method].([]any)
	if len(list) < 1000 {
		t.notifications[method] = append(list, withoutIDs(params))
	}
}

func (t *transcript) noteAsked(method string, params map[string]any) {
	list, _ := t.requests[method].([]any)
	if len(list) < 100 {
		t.requests[method] = append(list, withoutIDs(params))
	}
}

// withoutIDs returns the parameters without what names a message of this connection only.
func withoutIDs(params map[string]any) any {
	if params == nil {
		return map[string]any{}
	}
	delete(params, "requestId")
	return params
}

// What differs between two runs of the same server, wherever it occurs.
var (
	times = regexp.MustCompile(`\b20\d\d-\d\d-\d\d[T ]\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)?`)
	uuids = regexp.MustCompile(`\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b`)
	ports = regexp.MustCompile(`\b(localhost|127\.0\.0\.1):\d+`)
	took  = regexp.MustCompile(`\b\d+(\.\d+)?( ?ms| seconds)\b`)
)

func (f folder) normal(text []byte) []byte {
	s := strings.ReplaceAll(string(text), f.root, "{root}")
	s = times.ReplaceAllString(s, "{time}")
	s = uuids.ReplaceAllString(s, "{uuid}")
	s = ports.ReplaceAllString(s, "$1:{port}")
	return []byte(took.ReplaceAllString(s, "{time}"))
}
