package proxy

import (
	"bytes"
	"strconv"
	"strings"
	"time"

	"github.com/tidwall/gjson"

	"github.com/dragoman-proxy/dragoman/proxy/mcp"
	"github.com/dragoman-proxy/dragoman/translate/wire"
)

// backoff decides how often and how soon a process is started again.
type backoff struct {
	first, last time.Duration
	max, tries  int
}

// another reports whether a process that lived so long may be followed by one
// more.
func (b *backoff) another(lived time.Duration) bool {
	if lived >= healthy {
		b.tries = 0
	}
	if b.tries >= b.max {
		return false
	}
	b.tries++
	return true
}

// wait is how long to wait before the next one.
func (b *backoff) wait() time.Duration {
	wait := b.first
	for i := 1; i < b.tries && wait < b.last; i++ {
		wait *= 2
	}
	return min(wait, b.last)
}

// What a memory holds at most. The messages it is about are short.
const (
	maxSubscriptions = 256
	maxMemorable     = 8 << 10
)

// memory is what a server knows of its client beside initialize.
type memory struct {
	initialized bool
	level       []byte // params of the last logging/setLevel
	subscribed  map[string][]byte
}

// memorable reports whether a memory may have to note a message of the client.
func memorable(message []byte) bool {
	return len(message) <= maxMemorable && (bytes.Contains(message, []byte("initialized")) ||
		bytes.Contains(message, []byte("setLevel")) || bytes.Contains(message, []byte("subscribe")))
}

// note takes down what a message of the client changes.
func (y *memory) note(message []byte) {
	if !memorable(message) {
		return
	}
	var m wire.Message
	if m.Scan(message, nil) != nil {
		return
	}
	if m.Method == wire.Initialized {
		y.initialized = true
		return
	}
	if m.Kind != wire.Request || len(m.Params()) == 0 {
		return
	}
	switch uri := gjson.Get(view(m.Params()), "uri"); m.Method {
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

// replay is what another server has to be told behind initialize, and the ids of
// our requests in it, whose answers no client gets.
func (y *memory) replay() (messages [][]byte, own map[string]bool) {
	if !y.initialized {
		return nil, nil // nothing else may come before it
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
