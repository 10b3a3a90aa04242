// Package idmap replaces the ids and progress tokens of the requests on one pipe towards a server. All
// messages of the server come on one stream there, so that an id must name one request only, for as
// long as an answer to it may come, however late. So each request goes out under an id of dragoman's
// own, which is never used again, and the server's messages about it get the sender's id and token
// back. See https://modelcontextprotocol.io/specification/2025-11-25/basic#requests and
// https://modelcontextprotocol.io/specification/2025-11-25/basic/utilities/progress.
package idmap

import (
	"strconv"

	"github.com/dragoman-proxy/dragoman/translate/wire"
)

// Bounds of the tokens that are kept after the answers to their requests: those of calls that have
// become tasks.
const (
	maxTokens    = 256
	maxTokenSize = 1 << 10
)

// Shape lists, for Scan, the members of messages in both directions that hold request ids, progress
// tokens or subscription ids.
var Shape = func() *wire.Shape {
	s := new(wire.Shape)
	for _, path := range []string{"id", "params._meta.progressToken", "params.progressToken", "params.requestId", "params.task", "result.resultType"} {
		s.At(wire.ParsePath(path)...)
	}
	for _, in := range []wire.Name{wire.Params, wire.ResultKey} {
		s.At(wire.Step{Name: in}, wire.Step{Name: wire.Meta}, wire.Step{Name: wire.MetaSubscriptionID})
	}
	return s
}()

// Table holds the requests on one pipe that have no answer yet. T is the caller's data for each
// request. The caller serializes access and bounds the number of entries.
type Table[T any] struct {
	last   uint64
	taken  string               // a number that is never given; "" for none
	open   map[string]*Entry[T] // by the keys of the ids that the server has
	tokens map[string]string    // the senders' tokens for tasks, by the keys of the ids that the server has
	order  []string             // of tokens, oldest first
	key    []byte
}

// Entry is a request without an answer. It owns its memory.
type Entry[T any] struct {
	Of    T
	ID    string // the sender's id, raw JSON
	Key   string // the key of ID; equal ids have equal keys
	Given string // the id towards the server, and the progress token if there is one; raw JSON

	GivenKey string // the key of Given
	Progress Progress
	number   uint64 // of the entry, in the order of creation
	token    string // as the sender has it, raw JSON; "" for none
	task     bool   // the request may become a task
}

// Taken keeps the table from giving a request the id, raw JSON, of one that was sent before: that of initialize.
func (t *Table[T]) Taken(id []byte) { t.taken = string(id) }

// Enter adds an entry for the request m, which was scanned with Shape. In m it marks the id and the
// progress token to be replaced by the values for the server, in every member that the server may read
// as either.
func (t *Table[T]) Enter(m *wire.Message, of T) *Entry[T] {
	if t.open == nil {
		t.open = make(map[string]*Entry[T])
	}
	t.last++
	given := strconv.FormatUint(t.last, 10)
	if given == t.taken {
		t.last++
		given = strconv.FormatUint(t.last, 10)
	}
	e := &Entry[T]{
		Of: of, number: t.last, ID: string(m.ID()), Key: string(wire.AppendIDKey(nil, m.ID())),
		Given: given, GivenKey: string(wire.AppendIDKey(nil, []byte(given))),
	}
	put(m.Root(), wire.ID, given)
	if params := m.Root().Get(wire.Params); params.OK() {
		e.task = params.Get(wire.Task).OK()
		if token := params.Get(wire.Meta).Get(wire.ProgressTokenKey); token.OK() {
			e.token = string(token.Raw())
			inMeta(params, wire.ProgressTokenKey, given)
		}
	}
	t.open[e.GivenKey] = e
	return e
}

// Asked returns the entry of the open request that a response with this id answers, or nil. Some servers answer with the text of
// the integer that they got.
func (t *Table[T]) Asked(id []byte) *Entry[T] {
	e := t.find(id)
	if integer, ok := wire.IntegerIn(id); ok && e == nil {
		e = t.find(integer)
	}
	return e
}

// AsText reports whether the response m, which answers an open request, has the text of its id.
func AsText(m *wire.Message) bool {
	_, text := wire.Inner(m.ID())
	return text
}

// Answered removes and returns the entry that the response m answers, and marks in m the sender's id
// as the replacement. It returns nil when no open request has this id.
func (t *Table[T]) Answered(m *wire.Message) *Entry[T] {
	e := t.Asked(m.ID())
	if e == nil {
		return nil
	}
	t.Leave(e)
	put(m.Root(), wire.ID, e.ID)
	inMeta(m.Root().Get(wire.ResultKey), wire.MetaSubscriptionID, e.ID)
	task := e.task || m.Root().Get(wire.ResultKey).Get(wire.ResultType).Is("task")
	if task && e.token != "" && m.Kind == wire.Result {
		t.keepToken(e)
	}
	return e
}

// About returns the entry that the notification m refers to by progress token or subscription id, and
// marks in m the sender's value as the replacement. known is false for progress that no open request
// or task has asked for, that names none, or that a request sent more than once has had already, and for a notification of a subscription that is not open. A
// notification that refers to no request gives nil and true.
func (t *Table[T]) About(m *wire.Message) (e *Entry[T], known bool) {
	params := m.Root().Get(wire.Params)
	if m.Method == wire.Progress {
		given := params.Get(wire.ProgressTokenKey)
		if !m.HasProgressToken() || !given.OK() {
			return nil, false
		}
		if e = t.find(given.Raw()); e != nil && e.token != "" {
			if !e.Progress.Rises(m) {
				return nil, false
			}
			put(params, wire.ProgressTokenKey, e.token)
			return e, true
		}
		token, ok := t.tokens[string(t.key)] // find has set t.key
		if ok {
			put(params, wire.ProgressTokenKey, token)
		}
		return nil, ok
	}
	if given := params.Get(wire.Meta).Get(wire.MetaSubscriptionID); given.OK() {
		if e = t.Asked(given.Raw()); e == nil {
			return nil, false
		}
		inMeta(params, wire.MetaSubscriptionID, e.ID)
	}
	return e, true
}

// Newest returns the newest entry that the function is accepts, or nil if it accepts none.
func (t *Table[T]) Newest(is func(*Entry[T]) bool) (newest *Entry[T]) {
	for _, e := range t.open {
		if is(e) && (newest == nil || e.number > newest.number) {
			newest = e
		}
	}
	return newest
}

// Oldest returns the oldest entry that the function is accepts, or nil if it accepts none.
func (t *Table[T]) Oldest(is func(*Entry[T]) bool) (oldest *Entry[T]) {
	for _, e := range t.open {
		if is(e) && (oldest == nil || e.number < oldest.number) {
			oldest = e
		}
	}
	return oldest
}

// Has reports whether e has no answer yet.
func (t *Table[T]) Has(e *Entry[T]) bool { return t.open[e.GivenKey] == e }

// Leave removes e without an answer. An answer that still comes is dropped.
func (t *Table[T]) Leave(e *Entry[T]) {
	if t.Has(e) {
		delete(t.open, e.GivenKey)
	}
}

// Each calls do with every entry.
func (t *Table[T]) Each(do func(*Entry[T])) {
	for _, e := range t.open {
		do(e)
	}
}

// Len returns the number of entries.
func (t *Table[T]) Len() int { return len(t.open) }

// Only returns the entry if there is exactly one, or nil.
func (t *Table[T]) Only() (only *Entry[T]) {
	if len(t.open) == 1 {
		for _, only = range t.open {
		}
	}
	return only
}

// Clear removes all entries.
func (t *Table[T]) Clear() {
	clear(t.open)
	clear(t.tokens)
	t.order = nil
}

// Cancel marks the id in a notifications/cancelled to be replaced by the one that the server knows.
func (e *Entry[T]) Cancel(m *wire.Message) {
	put(m.Root().Get(wire.Params), wire.RequestID, e.Given)
}

// Cancelled returns the id that a notifications/cancelled names, as a key, or "" if it names none.
func Cancelled(m *wire.Message) string {
	id := m.Root().Get(wire.Params).Get(wire.RequestID)
	if !id.OK() {
		return ""
	}
	return string(wire.AppendIDKey(nil, id.Raw()))
}

func (t *Table[T]) find(given []byte) *Entry[T] {
	t.key = wire.AppendIDKey(t.key[:0], given)
	return t.open[string(t.key)]
}

// keepToken keeps the token of a call that may have become a task: it stays good until
// the task ends. See
// https://modelcontextprotocol.io/specification/2025-11-25/basic/utilities/tasks#task-progress-notifications.
func (t *Table[T]) keepToken(e *Entry[T]) {
	if len(e.token) > maxTokenSize {
		return
	}
	if len(t.order) == maxTokens {
		delete(t.tokens, t.order[0])
		t.order = append(t.order[:0], t.order[1:]...)
	}
	if t.tokens == nil {
		t.tokens = make(map[string]string)
	}
	t.tokens[e.GivenKey] = e.token
	t.order = append(t.order, e.GivenKey)
}

// put marks the value of every member of this name to be replaced.
func put(object wire.Node, name wire.Name, value string) {
	if !object.OK() {
		return
	}
	for c := object.First(); c.OK(); c = c.Next() {
		if c.Name() == name {
			c.Put([]byte(value))
		}
	}
}

// inMeta marks the value of every member of this name in _meta to be replaced.
func inMeta(object wire.Node, name wire.Name, value string) {
	if !object.OK() {
		return
	}
	for c := object.First(); c.OK(); c = c.Next() {
		if c.Name() == wire.Meta {
			put(c, name, value)
		}
	}
}
