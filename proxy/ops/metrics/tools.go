package metrics

import (
	"hash/maphash"
	"maps"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/tidwall/gjson"

	"github.com/dragoman-proxy/dragoman/translate/wire"
)

// Metrics name a tool only if a tool list contains it, and at most maxToolLabels tools,
// because clients can call any name.
const (
	maxToolLabels = 200
	maxTools      = 10_000     // how many tools of the lists are remembered
	maxNamed      = 1_000      // how many label sets with a tool of its own a histogram has
	otherTools    = "_other"   // the rest of the lists
	unknownTools  = "_unknown" // what no list names
)

// Tool is how metrics name a tool. A nil Tool is that of a request that calls none.
type Tool struct{ label string }

var other, unknown = &Tool{otherTools}, &Tool{unknownTools}

// Label returns the value of the label.
func (t *Tool) Label() string {
	if t == nil {
		return ""
	}
	return t.label
}

// Tools knows which tools metrics name. It learns them from the server's lists and from what dragoman
// serves itself. It is safe for concurrent use.
type Tools struct {
	known atomic.Pointer[map[string]*Tool] // is replaced and never changed; nil for none

	mu    sync.Mutex
	named int        // tools that have a label of their own
	seen  [16]uint64 // hashes of the last lists, which have nothing new
	next  int
}

var seed = maphash.MakeSeed()

// Of returns the tool with a name in JSON, as a call has it.
func (t *Tools) Of(name []byte) *Tool {
	inner, ok := wire.Inner(name)
	if !ok {
		return unknown
	}
	text := wire.View(inner)
	if strings.IndexByte(text, '\\') >= 0 {
		text = gjson.Parse(wire.View(name)).Str
	}
	if known := t.known.Load(); known != nil {
		if tool := (*known)[text]; tool != nil {
			return tool
		}
	}
	return unknown
}

// Learn notes the tools on a page of a list, which is a result of tools/list. It keeps no reference to it.
func (t *Tools) Learn(result []byte) {
	hash := maphash.Bytes(seed, result)
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, h := range t.seen {
		if h == hash {
			return
		}
	}
	var names []string
	gjson.Get(wire.View(result), "tools").ForEach(func(_, entry gjson.Result) bool {
		names = append(names, entry.Get("name").Str)
		return len(names) < maxTools
	})
	t.add(names)
	t.seen[t.next%len(t.seen)] = hash
	t.next++
}

// Listed returns the tool of this name, which a list contains.
func (t *Tools) Listed(name string) *Tool {
	if known := t.known.Load(); known != nil {
		if tool := (*known)[name]; tool != nil {
			return tool
		}
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.add([]string{name})
	if tool := (*t.known.Load())[name]; tool != nil {
		return tool
	}
	return other
}

// add notes tools that lists contain. Called with t.mu held.
func (t *Tools) add(names []string) {
	known := make(map[string]*Tool)
	if was := t.known.Load(); was != nil {
		known = *was
	}
	changed := t.known.Load() == nil
	for _, name := range names {
		if name == "" || known[name] != nil || len(known) >= maxTools {
			continue
		}
		if !changed {
			known, changed = maps.Clone(known), true
		}
		name = strings.Clone(name)
		if len(name) > maxToolLabels || t.named >= maxToolLabels {
			known[name] = other
			continue
		}
		t.named++
		known[name] = &Tool{name}
	}
	if changed {
		t.known.Store(&known)
	}
}
