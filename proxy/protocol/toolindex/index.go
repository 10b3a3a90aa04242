package toolindex

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"slices"
	"strings"
	"sync"
	"time"
	"unique"

	"github.com/tidwall/gjson"
	"github.com/tidwall/sjson"
	"go.uber.org/zap"

	"github.com/dragoman-proxy/dragoman/proxy/protocol/mcp"
	"github.com/dragoman-proxy/dragoman/transform"
	"github.com/dragoman-proxy/dragoman/translate"
	"github.com/dragoman-proxy/dragoman/translate/wire"
)

const (
	maxTools       = 10_000
	maxSchemaBytes = 4 << 20
	maxNameBytes   = 1 << 20 // of all tools
	// maxUnlisted is the longest name of a tool of which it is noted that the list does not have it.
	maxUnlisted = 256
	// freshness is how long a list that was read counts as current.
	freshness = time.Second
	// retryAfter is how long a list that the server refuses, or is slow to fail with, is not requested again. Another error, such as the end
	// of a connection, soon has no more to do with the next call.
	retryAfter = 30 * time.Second
)

// Tool is what the list says about a tool. Equal texts share their memory.
type Tool struct {
	// Listed says that the tool is in the list. If it is false, the list did not have the tool, and nothing else is
	// known.
	Listed    bool
	Arguments []Argument // arguments that are also sent in headers
	TaskOnly  bool       // the tool only runs as a task

	output  unique.Handle[string]
	schemas transform.Schemas
	narrow  unique.Handle[string]
}

// OutputSchema returns the schema of the tool's structured results, and whether it has one and it is known.
func (t Tool) OutputSchema() ([]byte, transform.Schemas) {
	if t.schemas != transform.Seen {
		return nil, t.schemas
	}
	return []byte(t.output.Value()), t.schemas
}

// Narrowing returns the names of the parameters by which a caller can ask for less, or "" if there are none.
func (t Tool) Narrowing() string {
	if !t.Listed {
		return ""
	}
	return t.narrow.Value()
}

// equal reports whether the list says the same about both.
func (t Tool) equal(other Tool) bool {
	return t.Listed == other.Listed && t.TaskOnly == other.TaskOnly && t.output == other.output && t.schemas == other.schemas &&
		t.narrow == other.narrow && slices.EqualFunc(t.Arguments, other.Arguments, func(a, b Argument) bool {
		return a.Header == b.Header && a.Kind == b.Kind && slices.Equal(a.Path, b.Path)
	})
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

// Ask asks a server for its list of tools.
type Ask struct {
	Of *translate.Revision // the server's
	// Page sends a tools/list with these members of params, "" for none, to the server and returns its result.
	Page func(params string) (result []byte, err error)
}

// Index keeps what is known about a server's tools. The zero value is empty. It is safe for concurrent use.
type Index struct {
	mu     sync.Mutex
	known  map[string]Tool
	bytes  int             // size of all schemas
	names  int             // size of all names
	change int             // how often Forget was called
	turn   chan struct{}   // full while a goroutine reads the list
	readAt time.Time       // when the list was read last; after a failure, when it may be read again
	err    error           // error of the last read
	wrong  map[string]bool // tools that cannot be called and were logged
	learnt [8]uint64       // hashes of answers that Learn has nothing to do for; 0 for none
	next   int             // in learnt
}

var seed = maphash.MakeSeed()

// hashOf returns a hash of an answer without its id, if the id is where most servers write it: at the start or at the end.
// The answer is a valid message, so that what is left out is the id or a part of it, and nothing else.
func hashOf(answer []byte) uint64 {
	const start, end, longest = `{"jsonrpc":"2.0","id":`, `,"jsonrpc":"2.0","id":`, 128
	if rest, ok := bytes.CutPrefix(answer, []byte(start)); ok {
		if i := bytes.IndexByte(rest, ','); i > 0 {
			answer = rest[i:]
		}
	} else if i := bytes.LastIndex(answer[max(0, len(answer)-longest):], []byte(end)); i >= 0 {
		i += max(0, len(answer)-longest) + len(end)
		if id, whole := bytes.CutSuffix(answer[i:], []byte{'}'}); whole && !bytes.ContainsAny(id, ",:{}[]") {
			answer = answer[:i]
		}
	}
	return max(maphash.Bytes(seed, answer), 1)
}

// hasLearnt reports whether Learn has nothing to do for an answer with this hash.
func (x *Index) hasLearnt(hash uint64) (known bool, change int) {
	x.mu.Lock()
	defer x.mu.Unlock()
	return slices.Contains(x.learnt[:], hash), x.change
}

// note notes that Learn has nothing more to do for an answer with this hash, unless Forget was called since change.
func (x *Index) note(hash uint64, change int) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.change == change {
		x.learnt[x.next%len(x.learnt)] = hash
		x.next++
	}
}

// Find returns what is known about a tool. known is false if nothing is.
func (x *Index) Find(tool string) (t Tool, known bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	t, known = x.known[tool]
	return t, known
}

// Forget clears the index. It is called when the list has changed.
func (x *Index) Forget() {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.known, x.bytes, x.names, x.readAt, x.err = nil, 0, 0, time.Time{}, nil
	x.learnt = [len(x.learnt)]uint64{}
	x.change++
}

// Learn stores the tools in answer, the answer to a tools/list. It keeps no reference to answer. less is the answer
// without the tools that cannot be called over HTTP, because their annotations are invalid. changed reports whether
// there were such tools. Each of them is logged once. An answer that was learnt before is only hashed.
func (x *Index) Learn(answer []byte, log *zap.Logger) (less []byte, changed bool) {
	hash := hashOf(answer)
	known, change := x.hasLearnt(hash)
	if known {
		return answer, false
	}
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
		x.note(hash, change)
		return answer, false
	}
	kept := []byte{'['}
	for i, entry := range tools.Array() {
		if wrong[i] {
			continue
		}
		kept = wire.Comma(kept)
		kept = append(kept, entry.Raw...)
	}
	less, err := sjson.SetRawBytes(answer, "result.tools", append(kept, ']'))
	if err != nil {
		return answer, false
	}
	return less, true
}

// tell logs that a tool cannot be called, once for each tool, because lists are read often.
func (x *Index) tell(tool string, err error, log *zap.Logger) {
	x.mu.Lock()
	told := x.wrong[tool] || len(x.wrong) >= maxTools || len(tool) > maxUnlisted
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

// set stores a tool, if it has a name. A schema that does not fit becomes unknown. Called with x.mu held.
func (x *Index) set(tool string, t Tool) {
	old, again := x.known[tool]
	if tool == "" || !again && (len(x.known) >= maxTools || x.names+len(tool) > maxNameBytes) || again && old.equal(t) {
		return
	}
	if !again {
		x.names += len(tool)
	}
	x.learnt = [len(x.learnt)]uint64{} // an answer that was learnt before may say otherwise
	if x.bytes-old.size()+t.size() > maxSchemaBytes {
		t.output, t.schemas = unique.Handle[string]{}, transform.Unknown
	}
	if x.known == nil {
		x.known = make(map[string]Tool)
	}
	x.known[tool] = t
	x.bytes += t.size() - old.size()
}

// Look returns what the server's list says about a tool. If the tool is not known, Look reads the list, unless that
// was done a moment ago, or the server has just refused it. The error is that of the last read, or of ctx.
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
	if !listed && len(tool) <= maxUnlisted && !x.readAt.IsZero() { // the index was not cleared meanwhile
		x.set(strings.Clone(tool), t) // the server may have the tool nevertheless, and answers the call itself
	}
	return t, nil
}

// Refresh reads the list, unless it was read after the time then.
func (x *Index) Refresh(ctx context.Context, then time.Time, ask Ask) error {
	_, err := x.read(ctx, then, ask)
	return err
}

// read does what Refresh does and returns the tools in the list, or nil if it did not read the list.
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
	begun := time.Now()
	found, err := pages(ask)
	_, refused := errors.AsType[*mcp.ServerError](err)
	if errors.Is(ctx.Err(), context.Canceled) {
		return found, err // the client has left, which says nothing about the list
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.change != change {
		return found, err // the list has changed: found may be outdated
	}
	if x.readAt, x.err = time.Now(), err; refused || err != nil && time.Since(begun) >= freshness {
		x.readAt = x.readAt.Add(retryAfter)
	}
	for name, t := range found {
		x.set(name, t)
	}
	return found, err
}

// pages returns what the list says about each tool.
func pages(ask Ask) (map[string]Tool, error) {
	found := make(map[string]Tool)
	err := ask.each(func(entry gjson.Result) {
		if name, t, _ := parse(entry); len(found) < maxTools {
			found[name] = t
		}
	})
	return found, err
}

// Entries returns the entries of all pages of the list, as the server sent them. The caller owns them.
func (a Ask) Entries() (tools [][]byte, err error) {
	err = a.each(func(entry gjson.Result) { tools = append(tools, []byte(entry.Raw)) })
	return tools, err
}

// each reads the list, page by page, and calls do with each entry. A list that does not end is read up to its bound.
func (a Ask) each(do func(entry gjson.Result)) error {
	err := mcp.ReadPages(a.Of, a.Page, func(result gjson.Result) error {
		result.Get("tools").ForEach(func(_, entry gjson.Result) bool {
			do(entry)
			return true
		})
		return nil
	})
	if _, endless := errors.AsType[*mcp.EndlessListError](err); endless {
		return nil
	}
	return err
}
