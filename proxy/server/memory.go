package server

import (
	"bytes"
	"strconv"
	"strings"
	"time"

	"github.com/tidwall/gjson"

	"github.com/dragoman-proxy/dragoman/proxy/mcp"
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

// Limits of a Memory. The messages that it stores are short.
const (
	maxSubscriptions = 256
	maxMemorable     = 8 << 10
)

// Memory holds the state of a client that a restarted server has to get after initialize:
// notifications/initialized, the log level and the resource subscriptions.
type Memory struct {
	Initialized bool
	level       []byte // params of the last logging/setLevel
	subscribed  map[string][]byte
}

// Memorable reports whether [Memory.Note] may have to store something of a client's message.
func Memorable(message []byte) bool {
	return len(message) <= maxMemorable && (bytes.Contains(message, []byte("initialized")) ||
		bytes.Contains(message, []byte("setLevel")) || bytes.Contains(message, []byte("subscribe")))
}

// Note stores what a message of the client changes.
func (y *Memory) Note(message []byte) {
	if !Memorable(message) {
		return
	}
	var m wire.Message
	if m.Scan(message, nil) != nil {
		return
	}
	if m.Method == wire.Initialized {
		y.Initialized = true
		return
	}
	if m.Kind != wire.Request || len(m.Params()) == 0 {
		return
	}
	switch uri := gjson.GetBytes(m.Params(), "uri"); m.Method {
	case wire.LoggingSetLevel:
		y.level = bytes.Clone(m.Params())
	case wire.ResourcesSubscribe:
		if y.subscribed == nil {
			y.subscribed = make(map[string][]byte)
		}
		if len(y.subscribed) < maxSubscriptions {
			y.subscribed[strings.Clone(uri.String())] = bytes.Clone(m.Params())
		}
	case wire.ResourcesUnsubscribe:
		delete(y.subscribed, uri.String())
	}
}

// Replay returns the messages to send to a restarted server after initialize, and the ids of the
// requests among them. Responses to these ids must not reach the client.
func (y *Memory) Replay() (messages [][]byte, own map[string]bool) {
	if !y.Initialized {
		return nil, nil // nothing may be sent before notifications/initialized
	}
	messages = append(messages, mcp.Notification(wire.Initialized, ""))
	own = make(map[string]bool)
	ask := func(method wire.Method, params []byte) {
		id := `"dragoman:` + strconv.Itoa(len(own)+1) + `"`
		own[id] = true
		messages = append(messages, mcp.Request(id, method, params))
	}
	if y.level != nil {
		ask(wire.LoggingSetLevel, y.level)
	}
	for _, params := range y.subscribed {
		ask(wire.ResourcesSubscribe, params)
	}
	return messages, own
}
