package toolindex

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"
	"unique"

	"github.com/tidwall/gjson"
	"github.com/tidwall/sjson"
	"go.uber.org/zap"

	"github.com/dragoman-proxy/dragoman/transform"
)

const (
	maxTools       = 10_000
	maxSchemaBytes = 4 << 20
	// maxPages bounds how many pages are read of one list.
	maxPages = 100
	// freshness is for how long a list that has just been read is good enough.
	freshness = time.Second
	// retryAfter is for how long a list that was not to be had is not asked for again.
	retryAfter = 30 * time.Second
)

// Tool is what the list says of a tool. Its texts are shared by all that say the same.
type Tool struct {
	// Listed says that the tool stands in the list; else nothing is known of it, but that it did not when it was looked for.
	Listed    bool
	Arguments []Argument // that stand in headers as well
	TaskOnly  bool       // it runs as a task only

	output  unique.Handle[string]
	schemas transform.Schemas
	narrow  unique.Handle[string]
}

// OutputSchema is what its structured results must look like, as far as that is known.
func (t Tool) OutputSchema() ([]byte, transform.Schemas) {
	if t.schemas != transform.Seen {
		return nil, t.schemas
	}
	return []byte(t.output.Value()), t.schemas
}

// Narrowing names the parameters by which a caller can ask for less, "" for none.
func (t Tool) Narrowing() string {
	if !t.Listed {
		return ""
	}
	return t.narrow.Value()
}

func (t Tool) size() int {
	if t.schemas != transform.Seen {
		return 0
	}
	return len(t.output.Value())
}

// parse reads one entry of the list. The error says why the tool cannot be called over HTTP.
func parse(entry gjson.Result) (name string, t Tool, err error) {
	t = Tool{
		Listed: true, narrow: unique.Make(transform.Narrowing([]byte(entry.Raw))), schemas: transform.None,
		TaskOnly: entry.Get("execution.taskSupport").String() == "required",
	}
	if schema := entry.Get("outputSchema"); schema.Exists() {
		t.schemas = transform.Unknown
		if len(schema.Raw) <= maxSchemaBytes {
			t.output, t.schemas = unique.Make(schema.Raw), transform.Seen
		}
	}
	t.Arguments, err = Arguments(entry.Get("inputSchema"))
	return strings.Clone(entry.Get("name").String()), t, err
}

// Ask sends the server a tools/list with these members of params, "" for none, and returns its result.
type Ask func(params string) (result []byte, err error)

// Index is what is known of a server's tools. The zero value knows nothing. It is safe for concurrent use.
type Index struct {
	mu     sync.Mutex
	known  map[string]Tool
	bytes  int             // of schemas
	change int             // how often it was forgotten
	turn   chan struct{}   // held by who reads the list
	readAt time.Time       // that was done last; in the future while it is of no use
	err    error           // why it is not
	wrong  map[string]bool // tools that cannot be called, of which the log has been told
}

// Find is what is known of a tool; false where that is nothing.
func (x *Index) Find(tool string) (t Tool, known bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	t, known = x.known[tool]
	return t, known
}

// Forget is for when the list has changed.
func (x *Index) Forget() {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.known, x.bytes, x.readAt, x.err = nil, 0, time.Time{}, nil
	x.change++
}

// Learn takes down the answer to a tools/list, of which nothing is kept. less is the answer without the tools that cannot be
// called over HTTP, as their annotations are wrong; changed says that there were some, which log is told of once.
func (x *Index) Learn(answer []byte, log *zap.Logger) (less []byte, changed bool) {
	tools := gjson.GetBytes(answer, "result.tools")
	if !tools.IsArray() {
		return answer, false
	}
	wrong := make(map[int]bool) // nearly always empty: nothing is copied then
	n := 0
	tools.ForEach(func(_, entry gjson.Result) bool {
		name, t, err := parse(entry)
		x.put(name, t)
		if err != nil {
			wrong[n] = true
			x.tell(name, err, log)
		}
		n++
		return true
	})
	if len(wrong) == 0 {
		return answer, false
	}
	kept := []byte{'['}
	for i, entry := range tools.Array() {
		if wrong[i] {
			continue
		}
		if len(kept) > 1 {
			kept = append(kept, ',')
		}
		kept = append(kept, entry.Raw...)
	}
	less, err := sjson.SetRawBytes(answer, "result.tools", append(kept, ']'))
	if err != nil {
		return answer, false
	}
	return less, true
}

// tell says once that a tool cannot be called: lists are read often.
func (x *Index) tell(tool string, err error, log *zap.Logger) {
	x.mu.Lock()
	told := x.wrong[tool] || len(x.wrong) >= maxTools
	if !told {
		if x.wrong == nil {
			x.wrong = make(map[string]bool)
		}
		x.wrong[tool] = true
	}
	x.mu.Unlock()
	if !told {
		log.Warn("tool left out: its arguments cannot be put into headers", zap.String("tool", fmt.Sprintf("%.128s", tool)), zap.Error(err))
	}
}

func (x *Index) put(tool string, t Tool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.set(tool, t)
}

// set takes down a tool, if it has a name. A schema that there is no room for is unknown. Called with x.mu held.
func (x *Index) set(tool string, t Tool) {
	old, again := x.known[tool]
	if tool == "" || !again && len(x.known) >= maxTools {
		return
	}
	if x.bytes-old.size()+t.size() > maxSchemaBytes {
		t.output, t.schemas = unique.Handle[string]{}, transform.Unknown
	}
	if x.known == nil {
		x.known = make(map[string]Tool)
	}
	x.known[tool] = t
	x.bytes += t.size() - old.size()
}

// Look is what the server's list says of a tool. The list is read where that is not known, unless that was done a moment
// ago, or has just failed: then the error is that of the last time, or of ctx.
func (x *Index) Look(ctx context.Context, tool string, ask Ask) (Tool, error) {
	if t, known := x.Find(tool); known {
		return t, nil
	}
	found, err := x.read(ctx, time.Now().Add(-freshness), ask)
	if err != nil {
		return Tool{}, err
	}
	t, listed := found[tool]
	x.mu.Lock()
	defer x.mu.Unlock()
	if kept, known := x.known[tool]; known {
		return kept, nil
	}
	if !listed && !x.readAt.IsZero() { // nor was it forgotten meanwhile
		x.set(strings.Clone(tool), t) // it may be there nevertheless: the server will know
	}
	return t, nil
}

// Refresh reads the list, unless it has been read since then.
func (x *Index) Refresh(ctx context.Context, then time.Time, ask Ask) error {
	_, err := x.read(ctx, then, ask)
	return err
}

// read is Refresh, and what it has found; nil where it was read meanwhile.
func (x *Index) read(ctx context.Context, then time.Time, ask Ask) (map[string]Tool, error) {
	x.mu.Lock()
	if x.turn == nil {
		x.turn = make(chan struct{}, 1)
	}
	turn := x.turn
	x.mu.Unlock()
	select {
	case turn <- struct{}{}:
		defer func() { <-turn }()
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	x.mu.Lock()
	fresh, err, change := x.readAt.After(then), x.err, x.change
	x.mu.Unlock()
	if fresh {
		return nil, err
	}
	found, err := pages(ask)
	if errors.Is(ctx.Err(), context.Canceled) {
		return found, err // its client has left, which says nothing of the list
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.change != change {
		return found, err // it may be as it was before
	}
	if x.readAt, x.err = time.Now(), err; err != nil {
		x.readAt = x.readAt.Add(retryAfter)
	}
	for name, t := range found {
		x.set(name, t)
	}
	return found, err
}

// pages reads the list, page by page.
func pages(ask Ask) (map[string]Tool, error) {
	found := make(map[string]Tool)
	params := ""
	for range maxPages {
		result, err := ask(params)
		if err != nil {
			return found, err
		}
		gjson.GetBytes(result, "tools").ForEach(func(_, entry gjson.Result) bool {
			if name, t, _ := parse(entry); len(found) < maxTools {
				found[name] = t
			}
			return true
		})
		cursor := gjson.GetBytes(result, "nextCursor")
		next := `"cursor":` + cursor.Raw
		if cursor.Type != gjson.String || next == params {
			break
		}
		params = next
	}
	return found, nil
}
