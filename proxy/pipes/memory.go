package pipes

import (
	"bytes"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/tidwall/gjson"

	"github.com/dragoman-proxy/dragoman/proxy/bytes/large"
	"github.com/dragoman-proxy/dragoman/proxy/protocol/mcp"
	"github.com/dragoman-proxy/dragoman/translate/wire"
)

// healthy is how long a process must live before the failures of earlier ones are forgotten.
const healthy = time.Minute

// Backoff decides how often and how soon a process is started again. First is the first wait, which
// doubles up to Last. Max is the greatest number of restarts in a row, and Tries counts them.
type Backoff struct {
	First, Last time.Duration
	Max, Tries  int
}

// Another reports whether another process may be started after one that lived this long, and
// counts it.
func (b *Backoff) Another(lived time.Duration) bool {
	if lived >= healthy {
		b.Tries = 0
	}
	if b.Tries >= b.Max {
		return false
	}
	b.Tries++
	return true
}

// Wait returns how long to wait before the next process is started.
func (b *Backoff) Wait() time.Duration {
	wait := b.First
	for i := 1; i < b.Tries && wait < b.Last; i++ {
		wait *= 2
	}
	return min(wait, b.Last)
}

// Limits in bytes: of all subscriptions of a session with the requests for them, of what one takes beside its texts, and of a
// message that a Memory reads.
const (
	MaxSubscriptions     = 1 << 20
	SubscriptionOverhead = 256
	maxMemorable         = 8 << 10
)

// Memory holds the state of a client that a restarted server has to get after initialize:
// notifications/initialized, the log level and the resource subscriptions.
type Memory struct {
	Initialized bool
	NoAnswers   bool // Answered will not be called: a subscription counts as accepted
	Kept        *large.Holding
	level       []byte // params of the last logging/setLevel
	subscribed  map[string]*remembered
	asked       map[string]*remembered // by the keys of the ids of requests that subscribe and have no response yet
	size        int                    // bytes of both
	count       int                    // subscriptions so far
	unkept      int                    // requests that subscribe and found no room
}

// remembered is a subscription to one resource.
type remembered struct {
	number   int // the first one has the lowest
	uri      string
	params   []byte
	open     int // the number of its requests in asked
	accepted bool
}

// Memorable reports whether [Memory.Note] may have to store something of a client's message.
func Memorable(message []byte) bool {
	return len(message) <= maxMemorable && (bytes.Contains(message, []byte("initialized")) ||
		bytes.Contains(message, []byte("setLevel")) || bytes.Contains(message, []byte("subscribe")))
}

// Note stores what a message of the client changes. If that is the log level or a subscription, about says which: it is the same for
// messages of which only the last one counts; else it is "".
func (y *Memory) Note(message []byte) (about string) {
	if !Memorable(message) {
		return ""
	}
	var m wire.Message
	if m.Scan(message, nil) != nil {
		return ""
	}
	if m.Method == wire.Initialized {
		y.Initialized = true
		return ""
	}
	if m.Kind != wire.Request || len(m.Params()) == 0 {
		return ""
	}
	uri := gjson.GetBytes(m.Params(), "uri").String()
	switch m.Method {
	case wire.LoggingSetLevel:
		y.setLevel(m.Params())
		return "level"
	case wire.ResourcesSubscribe:
		y.subscribe(uri, &m)
	case wire.ResourcesUnsubscribe:
		y.forget(y.subscribed[uri])
	default:
		return ""
	}
	return "resource " + uri
}

// Become replaces the log level and the subscriptions by those that these requests of the client make.
func (y *Memory) Become(requests [][]byte) {
	y.setLevel(nil)
	for _, s := range y.subscribed {
		y.forget(s)
	}
	for _, m := range requests {
		y.Note(m)
	}
}

// State returns requests that make the same log level and subscriptions, the latter in the client's order. Their id is 0.
func (y *Memory) State() [][]byte { return y.requests(func() []byte { return []byte("0") }) }

// requests returns those that set the log level and subscribe, with these ids.
func (y *Memory) requests(id func() []byte) (all [][]byte) {
	if y.level != nil {
		all = append(all, mcp.Request(id(), wire.LoggingSetLevel, y.level))
	}
	for _, s := range y.inOrder() {
		all = append(all, mcp.Request(id(), wire.ResourcesSubscribe, s.params))
	}
	return all
}

// setLevel stores the params of logging/setLevel.
func (y *Memory) setLevel(params []byte) {
	y.Kept.Drop(len(y.level))
	if y.level = nil; y.Kept.Keep(len(params)) == nil {
		y.level = bytes.Clone(params)
	}
}

// grow counts n more bytes, and reports whether there is room for them.
func (y *Memory) grow(n int) bool {
	if y.size+n > MaxSubscriptions || y.Kept.Keep(n) != nil {
		return false
	}
	y.size += n
	return true
}

func (y *Memory) shrink(n int) {
	y.size -= n
	y.Kept.Drop(n)
}

func (y *Memory) subscribe(uri string, m *wire.Message) {
	if y.subscribed == nil {
		y.subscribed, y.asked = make(map[string]*remembered), make(map[string]*remembered)
	}
	s := y.subscribed[uri]
	if s == nil {
		y.count++
		s = &remembered{number: y.count, uri: strings.Clone(uri), params: bytes.Clone(m.Params())}
		if !y.grow(s.size()) {
			y.unkept++
			return
		}
		y.subscribed[s.uri] = s
	}
	key := string(wire.AppendIDKey(nil, m.ID()))
	if !y.NoAnswers {
		y.settle(key, true) // of an older request with this id, nothing more is known
	}
	if !y.NoAnswers && y.grow(len(key)+SubscriptionOverhead) {
		y.asked[key] = s
		s.open++
	} else {
		s.accepted = true // its response is not waited for
	}
}

func (s *remembered) size() int { return len(s.uri) + len(s.params) + SubscriptionOverhead }

// forget removes a subscription, which may be nil.
func (y *Memory) forget(s *remembered) {
	if s != nil && y.subscribed[s.uri] == s {
		delete(y.subscribed, s.uri)
		y.shrink(s.size())
	}
}

// Waits reports whether [Memory.Answered] may have to store something of a response.
func (y *Memory) Waits() bool { return len(y.asked) > 0 }

// Answered forgets a subscription that the server has refused, unless it has accepted another request for it. The
// caller need not call it for all responses: a subscription without a known response is one that the server may have. Of a large
// message it is not found out whether it is a response.
func (y *Memory) Answered(message []byte) {
	var m wire.Message
	if len(message) > maxMemorable || m.Scan(message, nil) != nil || !m.Kind.Response() {
		return
	}
	y.settle(string(wire.AppendIDKey(nil, m.ID())), m.Kind == wire.Result)
}

func (y *Memory) settle(key string, accepted bool) {
	s := y.asked[key]
	if s == nil {
		return
	}
	delete(y.asked, key)
	y.shrink(len(key) + SubscriptionOverhead)
	s.open--
	s.accepted = s.accepted || accepted
	if s.open == 0 && !s.accepted {
		y.forget(s)
	}
}

// Updates returns the notifications that the resources of the subscriptions may have changed, in the client's order, for a client
// whose server could not send any for a while.
func (y *Memory) Updates() (all [][]byte) {
	for _, s := range y.inOrder() {
		all = append(all, mcp.Updated(s.uri))
	}
	return all
}

// inOrder returns the subscriptions in the client's order.
func (y *Memory) inOrder() []*remembered {
	return slices.SortedFunc(maps.Values(y.subscribed), func(a, b *remembered) int { return a.number - b.number })
}

// Unkept returns how many requests for a subscription found no room, and so are not among what Replay returns. Each is counted in
// one call of Unkept.
func (y *Memory) Unkept() int {
	n := y.unkept
	y.unkept = 0
	return n
}

// Replay returns the messages to send to a restarted server after initialize, with the subscriptions in the client's order, and the
// ids of the requests among them. Responses to these ids must not reach the client. The responses to earlier requests are not expected
// any more.
func (y *Memory) Replay() (messages [][]byte, own map[string]bool) {
	for key := range y.asked {
		y.settle(key, true)
	}
	own = make(map[string]bool)
	requests := y.requests(func() []byte {
		id := mcp.OwnID()
		own[string(id)] = true
		return id
	})
	if !y.Initialized { // a server that has accepted these before notifications/initialized does so again
		return requests, own
	}
	return append([][]byte{mcp.Notification(wire.Initialized, "")}, requests...), own
}
