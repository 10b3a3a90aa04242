package proxy

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/tidwall/gjson"
	"github.com/tidwall/sjson"
	"go.uber.org/zap"

	"github.com/dragoman-proxy/dragoman/proxy/mcp"
	"github.com/dragoman-proxy/dragoman/proxy/upstream"
	"github.com/dragoman-proxy/dragoman/translate/wire"
)

// headerMark is the annotation of an argument that also stands in a header. See
// https://modelcontextprotocol.io/specification/2026-07-28/basic/transports#custom-headers-from-tool-parameters.
const headerMark = "x-mcp-header"

// paramPrefix is what the names of the headers begin with.
const paramPrefix = "Mcp-Param-"

const (
	// maxListed bounds how many pages of tools are read for one call.
	maxListed = 100
	// readAgain is for how long a list that has just been read is good enough.
	readAgain = time.Second
	// readLater is for how long nobody asks again for a list that was not to be had.
	readLater = 30 * time.Second
	// readTime bounds how long a call waits for the list.
	readTime = 5 * time.Second
	// maxSchemaDepth is how deep we look for annotations.
	maxSchemaDepth = 64
	// maxSafe is the greatest integer that every reader of a header reads alike.
	maxSafe = 1<<53 - 1
)

// toolHeaders are the arguments of a server's tools that go into headers, as far as
// its list was seen. The zero value has seen none.
type toolHeaders struct {
	mu     sync.Mutex
	known  map[string][]headerArgument
	turn   chan struct{}   // held by who reads the list
	readAt time.Time       // that was done last; in the future while it is of no use
	err    error           // why it is not
	left   map[string]bool // tools left out, of which the log has been told
}

// headerArgument is an argument that goes into a header.
type headerArgument struct {
	path   []string // within arguments
	header string
	kind   string // string, integer or boolean
}

func (t *toolHeaders) find(tool string) (list []headerArgument, ok bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	list, ok = t.known[tool]
	return list, ok
}

func (t *toolHeaders) put(tool string, list []headerArgument) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.known == nil {
		t.known = make(map[string][]headerArgument)
	}
	if _, again := t.known[tool]; again || len(t.known) < maxTools {
		t.known[strings.Clone(tool)] = list
	}
}

// forget is for when the list has changed.
func (t *toolHeaders) forget() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.known, t.readAt, t.err = nil, time.Time{}, nil
}

// learn takes down the answer to a tools/list. Tools whose annotations are wrong
// cannot be called and are taken out; changed says that there were some.
func (t *toolHeaders) learn(answer []byte, log *zap.Logger) (out []byte, changed bool) {
	tools := gjson.GetBytes(answer, "result.tools")
	if !tools.IsArray() {
		return answer, false
	}
	kept := []byte{'['}
	tools.ForEach(func(_, tool gjson.Result) bool {
		name := tool.Get("name").String()
		list, err := headerArguments(tool.Get("inputSchema"))
		if err != nil {
			changed = true
			if t.leave(name) {
				log.Warn("tool left out: its arguments cannot be put into headers", zap.String("tool", fmt.Sprintf("%.128s", name)), zap.Error(err))
			}
			return true
		}
		t.put(name, list)
		if len(kept) > 1 {
			kept = append(kept, ',')
		}
		kept = append(kept, tool.Raw...)
		return true
	})
	if !changed {
		return answer, false
	}
	out, err := sjson.SetRawBytes(answer, "result.tools", append(kept, ']'))
	if err != nil {
		return answer, false
	}
	return out, true
}

// leave reports whether a tool was not left out before: lists are read often.
func (t *toolHeaders) leave(tool string) (first bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.left[tool] || len(t.left) >= maxTools {
		return false
	}
	if t.left == nil {
		t.left = make(map[string]bool)
	}
	t.left[strings.Clone(tool)] = true
	return true
}

// headerArguments are the annotated arguments of a tool's inputSchema.
func headerArguments(schema gjson.Result) ([]headerArgument, error) {
	if !strings.Contains(schema.Raw, headerMark) {
		return nil, nil
	}
	list, err := appendAnnotated(nil, schema, nil)
	if err != nil {
		return nil, err
	}
	for i, a := range list {
		if slices.ContainsFunc(list[:i], func(b headerArgument) bool { return strings.EqualFold(a.header, b.header) }) {
			return nil, fmt.Errorf("%s %q occurs twice", headerMark, a.header)
		}
	}
	return list, nil
}

func appendAnnotated(list []headerArgument, schema gjson.Result, path []string) (_ []headerArgument, err error) {
	if len(path) > maxSchemaDepth {
		return nil, fmt.Errorf("schema deeper than %d", maxSchemaDepth)
	}
	kind := schema.Get("type").String()
	members(schema.Raw, func(name string, v gjson.Result) {
		switch {
		case err != nil:
		case name == headerMark:
			a := headerArgument{path: slices.Clone(path), header: strings.Clone(v.String()), kind: strings.Clone(kind)}
			err = a.check(v)
			list = append(list, a)
		case name == "properties":
			members(v.Raw, func(name string, v gjson.Result) {
				if err == nil {
					list, err = appendAnnotated(list, v, append(path, strings.Clone(name)))
				}
			})
		case holdsData(name):
		case annotated(v, 0):
			err = fmt.Errorf("%s within %.64q", headerMark, name)
		}
	})
	return list, err
}

// check says what is wrong with an annotation.
func (a headerArgument) check(mark gjson.Result) error {
	token := a.header != ""
	for i := range len(a.header) {
		ch := a.header[i]
		token = token && (ch >= '0' && ch <= '9' || ch|0x20 >= 'a' && ch|0x20 <= 'z' || strings.IndexByte("!#$%&'*+-.^_`|~", ch) >= 0)
	}
	switch {
	case mark.Type != gjson.String || !token:
		return fmt.Errorf("%s %.64s is no name of a header", headerMark, mark.Raw)
	case len(a.path) == 0:
		return fmt.Errorf("%s on the whole schema", headerMark)
	case a.kind != "string" && a.kind != "integer" && a.kind != "boolean":
		return fmt.Errorf("%s %q on a value of type %.64q", headerMark, a.header, a.kind)
	}
	return nil
}

// holdsData reports whether a member of a schema holds values and no schema.
func holdsData(name string) bool {
	switch name {
	case "default", "enum", "const", "examples", "title", "description":
		return true
	}
	return false
}

// annotated reports whether an annotation stands anywhere in v.
func annotated(v gjson.Result, depth int) (found bool) {
	if !strings.Contains(v.Raw, headerMark) || v.Type != gjson.JSON {
		return false
	}
	if depth > maxSchemaDepth {
		return true
	}
	v.ForEach(func(key, v gjson.Result) bool {
		found = key.String() == headerMark || !holdsData(key.String()) && annotated(v, depth+1)
		return !found
	})
	return found
}

// paramHeaders are the headers that a call of tool has from its arguments. A tool
// that is not known is looked up in the server's list first.
func (c *modernConn) paramHeaders(ctx context.Context, tool string, arguments []byte, from []upstream.Header) ([]upstream.Header, error) {
	list, _, err := c.tools.look(ctx, tool, c.srv.log, func(params string) ([]byte, error) {
		return c.inquire(ctx, wire.ToolsList, params, from)
	})
	if err != nil && ctx.Err() != nil {
		return nil, err
	}
	return headersOf(list, arguments)
}

// headersOf are the headers of a call with these arguments.
func headersOf(list []headerArgument, arguments []byte) ([]upstream.Header, error) {
	var h []upstream.Header
	for _, a := range list {
		value, err := a.value(arguments)
		if err != nil {
			return nil, err
		}
		if value != nil {
			h = append(h, upstream.Header{Name: paramPrefix + a.header, Value: encodeHeader(*value)})
		}
	}
	return h, nil
}

// look is what is known of a tool, which is looked up in the server's list first where
// that is nothing; known is false where it is not there, either. ask sends a tools/list
// with these members of params and returns its result.
func (t *toolHeaders) look(ctx context.Context, tool string, log *zap.Logger, ask func(params string) ([]byte, error)) (list []headerArgument, known bool, err error) {
	if list, known = t.find(tool); known {
		return list, true, nil
	}
	if err := t.refresh(ctx, time.Now().Add(-readAgain), log, ask); err != nil {
		return nil, false, err
	}
	if list, known = t.find(tool); !known {
		t.put(tool, nil) // it may be there nevertheless: the server will know
	}
	return list, known, nil
}

// refresh reads the list, unless somebody has done so since then.
func (t *toolHeaders) refresh(ctx context.Context, then time.Time, log *zap.Logger, ask func(params string) ([]byte, error)) error {
	t.mu.Lock()
	if t.turn == nil {
		t.turn = make(chan struct{}, 1)
	}
	turn := t.turn
	t.mu.Unlock()
	select {
	case turn <- struct{}{}:
		defer func() { <-turn }()
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	t.mu.Lock()
	fresh, err := t.readAt.After(then), t.err
	t.mu.Unlock()
	if fresh {
		return err
	}
	err = t.read(log, ask)
	if errors.Is(ctx.Err(), context.Canceled) {
		return err // its client has left, which says nothing of the list
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.readAt, t.err = time.Now(), err; err != nil {
		t.readAt = t.readAt.Add(readLater)
	}
	return err
}

// read reads the list, page by page.
func (t *toolHeaders) read(log *zap.Logger, ask func(params string) ([]byte, error)) error {
	params := ""
	for range maxListed {
		result, err := ask(params)
		if err != nil {
			return err
		}
		t.learn(mcp.AppendResult(nil, nil, result), log)
		cursor := gjson.GetBytes(result, "nextCursor")
		if cursor.Type != gjson.String {
			return nil
		}
		next := `"cursor":` + cursor.Raw
		if next == params {
			return nil
		}
		params = next
	}
	return nil
}

// value is what the header says, nil for no header.
func (a headerArgument) value(arguments []byte) (*string, error) {
	at := a.argument(arguments)
	var text string
	switch {
	case a.kind == "string" && at.Type == gjson.String:
		text = at.String()
	case a.kind == "boolean" && at.IsBool():
		text = at.Raw
	case a.kind == "integer" && at.Type == gjson.Number && at.Num == math.Trunc(at.Num):
		if math.Abs(at.Num) > maxSafe {
			return nil, tooLarge(a)
		}
		text = strconv.FormatInt(int64(at.Num), 10)
	default:
		return nil, nil // absent, or nothing that the tool would take
	}
	return &text, nil
}

// argument is what stands at the place of a in a call, nothing where there is nothing.
func (a headerArgument) argument(arguments []byte) gjson.Result {
	at := gjson.ParseBytes(arguments)
	for _, name := range a.path {
		next := gjson.Result{}
		members(at.Raw, func(n string, v gjson.Result) {
			if n == name {
				next = v
			}
		})
		at = next
	}
	return at
}
