package proxy

import (
	"strings"
	"sync"
	"unique"

	"github.com/tidwall/gjson"

	"github.com/dragoman-proxy/dragoman/transform"
)

// Bounds of what is remembered of a session's tools.
const (
	maxTools       = 10_000
	maxSchemaBytes = 4 << 20
)

// schemas are the outputSchemas of a session's tools, as far as their list was
// seen. The zero value has seen none.
type schemas struct {
	mu    sync.Mutex
	known map[string]schema
	bytes int
}

// schema is an outputSchema, or that there is none. Sessions share their texts.
type schema struct {
	text unique.Handle[string]
	any  bool
}

func (s schema) size() int {
	if !s.any {
		return 0
	}
	return len(s.text.Value())
}

func (t *schemas) find(tool string) ([]byte, transform.Schemas) {
	t.mu.Lock()
	s, ok := t.known[tool]
	t.mu.Unlock()
	switch {
	case !ok:
		return nil, transform.Unknown
	case !s.any:
		return nil, transform.None
	}
	return []byte(s.text.Value()), transform.Seen
}

// put takes down one entry of tools/list. What is over the bounds is unknown.
func (t *schemas) put(tool []byte) {
	v := gjson.Parse(view(tool))
	name := v.Get("name")
	if name.Type != gjson.String {
		return
	}
	var s schema
	if raw := v.Get("outputSchema"); raw.Exists() && len(raw.Raw) <= maxSchemaBytes {
		s = schema{unique.Make(raw.Raw), true}
	} else if raw.Exists() {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	old, again := t.known[name.Str]
	size := s.size() - old.size()
	switch {
	case again && old == s:
		return
	case !again && len(t.known) >= maxTools, t.bytes+size > maxSchemaBytes:
		delete(t.known, name.Str)
		t.bytes -= old.size()
		return
	case t.known == nil:
		t.known = make(map[string]schema)
	}
	t.known[strings.Clone(name.Str)] = s
	t.bytes += size
}

// forget is for when the list has changed.
func (t *schemas) forget() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.known, t.bytes = nil, 0
}
