package proxy

import (
	"strings"
	"sync"
	"time"
	"unique"

	"github.com/tidwall/gjson"
	"go.uber.org/zap"

	"github.com/dragoman-proxy/dragoman/transform"
	"github.com/dragoman-proxy/dragoman/translate/wire"
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
	asked bool // for the list ourselves

	asking sync.Mutex // held meanwhile
}

// schema is an outputSchema, or that there is none. Sessions share their texts.
type schema struct {
	text   unique.Handle[string]
	any    bool
	narrow unique.Handle[string] // parameters by which callers ask for less
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

// narrowing are the parameters by which callers of a tool can ask for less.
func (t *schemas) narrowing(tool string) string {
	t.mu.Lock()
	defer t.mu.Unlock()
	if s, ok := t.known[tool]; ok {
		return s.narrow.Value()
	}
	return ""
}

// put takes down one entry of tools/list. What is over the bounds is unknown.
func (t *schemas) put(tool []byte) {
	v := gjson.Parse(view(tool))
	name := v.Get("name")
	if name.Type != gjson.String {
		return
	}
	s := schema{narrow: unique.Make(transform.Narrowing(tool))}
	if raw := v.Get("outputSchema"); raw.Exists() && len(raw.Raw) <= maxSchemaBytes {
		s.text, s.any = unique.Make(raw.Raw), true
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
	t.known, t.bytes, t.asked = nil, 0, false
}

// begin reports whether somebody has to ask for the list, since a tool in it is
// unknown and nobody did: once until the list changes.
func (t *schemas) begin(tool string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if _, known := t.known[tool]; known || t.asked {
		return false
	}
	t.asked = true
	return true
}

// How long the server may take for its list where a call waits for it.
const schemaTime = 2 * time.Second

// learn asks the server for its tools where a client calls one without having asked
// for them: what a tool's outputSchema allows has to be known before its result is
// cut. Where the server does not say, structured content stays whole.
func (x *exchange) learn(m *wire.Message) {
	s := x.srv.now().shaping
	if s == nil || m.Method != wire.ToolsCall || x.call == nil || x.call.wanted == nil ||
		!x.s.ServerRevision.Structured || !x.s.ClientRevision.Structured || !x.s.Facts.Has(wire.ServerTools) {
		return
	}
	w := x.call.wanted
	if w.maxTokens == 0 && !s.engine.Touches(s.server, w.tool) {
		return
	}
	t := &x.s.schemas
	t.asking.Lock() // another call may be about to know
	defer t.asking.Unlock()
	if !t.begin(w.tool) {
		return
	}
	if err := x.readSchemas(time.Now().Add(schemaTime)); err != nil {
		x.log().Debug("the server's tools are not known: their structured content stays whole", zap.Error(err))
	}
}

func (x *exchange) readSchemas(until time.Time) error {
	params := []byte("{}")
	for range maxPages {
		page, err := x.askServer(wire.ToolsList, params, time.Until(until))
		if err != nil {
			return err
		}
		editTools(page, func(tool []byte) []byte {
			x.s.schemas.put(tool)
			return tool
		})
		next := gjson.GetBytes(page, "result.nextCursor")
		if next.Type != gjson.String {
			return nil
		}
		params = []byte(`{"cursor":` + next.Raw + `}`)
	}
	return nil
}
