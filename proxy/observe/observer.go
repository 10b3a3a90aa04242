package observe

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tidwall/gjson"

	"github.com/dragoman-proxy/dragoman/translate"
	"github.com/dragoman-proxy/dragoman/translate/wire"
)

// These constants bound what is kept of one message.
const (
	maxWhole = 1 << 20  // a longer message is cut
	maxCut   = 64 << 10 // to this length
	maxName  = 256      // of a method, a tool or an id

	longMessage = 4 << 10 // a longer one is read once, and not again when it leaves
)

// Observer hands what is observed to its readers. The zero value has none, and is ready for use.
type Observer struct {
	// Lost is called for each event that a reader loses. It may be nil, and is set before there is a reader.
	Lost func(reader string)

	tap   atomic.Pointer[tap] // nil while there is no reader
	calls atomic.Uint64
	seq   atomic.Uint64

	mu sync.Mutex // guards changes of tap
}

// tap is the set of readers. It does not change.
type tap struct {
	order  sync.Mutex // held while an event gets its number and its place in all queues
	queues []*queue
}

// Watched reports whether there is a reader. It may be called on nil.
func (o *Observer) Watched() bool { return o != nil && o.tap.Load() != nil }

// Calls returns the number of the newest call.
func (o *Observer) Calls() uint64 { return o.calls.Load() }

// Attach makes r a reader under this name, until detach is called. detach returns when r has got all that waits for it.
func (o *Observer) Attach(name string, r Reader) (detach func()) {
	q := newQueue(name, queueBytes, o.Lost)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		q.feed(r)
	}()
	o.change(func(list []*queue) []*queue { return append(list, q) })
	return sync.OnceFunc(func() {
		o.change(func(list []*queue) (rest []*queue) {
			for _, other := range list {
				if other != q {
					rest = append(rest, other)
				}
			}
			return rest
		})
		q.close()
		<-ended
	})
}

func (o *Observer) change(f func([]*queue) []*queue) {
	o.mu.Lock()
	defer o.mu.Unlock()
	var list []*queue
	if t := o.tap.Load(); t != nil {
		list = append(list, t.queues...)
	}
	if list = f(list); len(list) == 0 {
		o.tap.Store(nil)
		return
	}
	o.tap.Store(&tap{queues: list})
}

// put hands an event to all readers. number is called before, in the order of the events.
func (o *Observer) put(what any, size int, number func()) {
	t := o.tap.Load()
	if t == nil {
		return
	}
	t.order.Lock()
	defer t.order.Unlock()
	if number != nil {
		number()
	}
	for _, q := range t.queues {
		q.put(event{what, size + overhead})
	}
}

// Keep returns a copy of a message that a hook is about to change, or an empty one if there is no reader.
func (o *Observer) Keep(raw []byte) Copy {
	if !o.Watched() || raw == nil {
		return Copy{}
	}
	c := copyOf(raw)
	c.at = time.Now()
	return c
}

func copyOf(raw []byte) Copy {
	if len(raw) <= maxWhole {
		return Copy{Raw: bytes.Clone(raw), Size: len(raw)}
	}
	sum := sha256.Sum256(raw)
	return Copy{Raw: bytes.Clone(raw[:maxCut]), Size: len(raw), Cut: true, SHA256: hex.EncodeToString(sum[:])}
}

// Begin begins the call of a message. server says that the server sends it outside of any call. It returns nil if there is
// no reader.
func (o *Observer) Begin(p Peers, first Copy, server bool) *Call {
	if !o.Watched() {
		return nil
	}
	c := &Call{N: o.calls.Add(1), Began: cmp.Or(first.at, time.Now()), Peers: p, Server: server, observer: o}
	var m wire.Message
	if first.Cut || m.Scan(first.Raw, nil) != nil {
		h := headOf(first)
		c.Kind, c.Method, c.ID, c.Tool = h.kind, h.method, h.id, h.tool
		return c
	}
	c.Kind, c.Method, c.ID = m.Kind, short(m.MethodName()), short(m.ID())
	if name := m.Name(); len(name) > 0 && len(name) < maxName {
		c.Tool = gjson.ParseBytes(name).String()
	}
	return c
}

// head is what is known of a message that cannot be scanned, because it was cut or is broken.
type head struct {
	kind             wire.Kind
	method, id, tool string
}

// headOf reads what it can of a message. gjson reads broken JSON as well.
func headOf(c Copy) (h head) {
	v := gjson.GetManyBytes(c.Raw, "method", "id", "params.name", "result", "error")
	h.method, h.id, h.tool = short([]byte(v[0].String())), short([]byte(v[1].Raw)), short([]byte(v[2].String()))
	switch {
	case h.method != "" && h.id != "":
		h.kind = wire.Request
	case h.method != "":
		h.kind = wire.Notification
	case v[4].Exists():
		h.kind = wire.Error
	case v[3].Exists(), c.Cut: // what is long is a result
		h.kind = wire.Result
	}
	return h
}

func short(text []byte) string {
	return strings.ToValidUTF8(string(text[:min(len(text), maxName)]), "")
}

// Add adds a message to the call, and returns it. m has Edge, Direction and Copy, and whichever of the other fields are
// known; Add sets the rest.
func (c *Call) Add(m Message) *Message {
	if c == nil || !c.observer.Watched() {
		return nil
	}
	return c.add(m)
}

// add is Add while there is a reader. Here m goes to the heap.
func (c *Call) add(m Message) *Message {
	m.Call = c
	var w wire.Message
	if f := m.From; f != nil && len(m.Raw) > longMessage && f.Kind != 0 { // it takes long to read, and is still of that kind
		m.Kind, m.ID = f.Kind, short([]byte(gjson.GetBytes(m.Raw, "id").Raw))
	} else if m.Cut || w.Scan(m.Raw, nil) != nil {
		h := headOf(m.Copy)
		m.Kind, m.ID = h.kind, h.id
		if m.Method == "" {
			m.Method = h.method
		}
	} else {
		m.Kind, m.ID = w.Kind, short(w.ID())
		if !m.Kind.Response() {
			m.Method = short(w.MethodName())
		}
	}
	if m.From != nil && m.Method == "" {
		m.Method = m.From.Method
	}
	size := len(m.Raw)
	if f := m.From; f != nil && (m.Unchanged() || f.Size == m.Size && f.SHA256 == m.SHA256 && bytes.Equal(f.Raw, m.Raw)) {
		m.Raw, size = f.Raw, 0
	}
	if m.At = m.Copy.at; m.At.IsZero() {
		m.At = time.Now()
	}
	msg := &m
	c.clock(msg)
	c.observer.put(msg, size, func() { msg.Seq = c.observer.seq.Add(1) })
	return msg
}

// Came adds a message that came in, and remembers it as what the next message of [Call.Went] in its direction is made of.
func (c *Call) Came(m Message) *Message { return c.Add(m) }

// Went adds what became of the message that came in last. lost is what its translation has lost.
func (c *Call) Went(edge Edge, to Direction, raw []byte, lost ...wire.Loss) *Message {
	if c == nil || !c.observer.Watched() {
		return nil
	}
	c.mu.Lock()
	from := c.came[to]
	c.mu.Unlock()
	left := Copy{}
	if from != nil && !from.Cut && bytes.Equal(from.Raw, raw) {
		left = from.Copy // unchanged
		left.at = time.Now()
	} else {
		left = copyOf(raw)
	}
	return c.become(Message{Edge: edge, Direction: to, Copy: left, Losses: lost})
}

// Became is Went for a message of which more is known.
func (c *Call) Became(m Message) *Message {
	if c == nil || !c.observer.Watched() {
		return nil
	}
	return c.become(m)
}

func (c *Call) become(m Message) *Message {
	c.mu.Lock()
	m.From = c.came[m.Direction]
	if b := &c.because[m.Direction]; b.Translator != nil && m.Why.Translator == nil {
		m.Why, m.Losses = b.Why, b.lost
	}
	c.mu.Unlock()
	return c.add(m)
}

// Because says how the message that came in last in a direction was translated. [Call.Went] adds that to what becomes of it.
func (c *Call) Because(to Direction, w Why, lost []wire.Loss) {
	if c == nil || !c.observer.Watched() {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	w.Known = Cloned(w.Known)
	c.because[to] = reason{w, slices.Clone(lost)}
}

// Cloned returns a copy of k in memory of its own.
func Cloned(k translate.Known) translate.Known {
	k.Note = bytes.Clone(k.Note)
	if k.Stamp == nil {
		return k
	}
	s := *k.Stamp
	for _, part := range []*[]byte{&s.ID, &s.ProgressToken, &s.ClientInfo, &s.Capabilities, &s.LogLevel, &s.ServerInfo, &s.Subscription, &s.ElicitationID, &s.Task} {
		*part = bytes.Clone(*part)
	}
	k.Stamp = &s
	return k
}

// Number returns the number of the call, and 0 for one that nothing observes.
func (c *Call) Number() uint64 {
	if c == nil {
		return 0
	}
	return c.N
}

// Keep is [Observer.Keep] for a message of the call.
func (c *Call) Keep(raw []byte) Copy {
	if c == nil {
		return Copy{}
	}
	return c.observer.Keep(raw)
}

// inContext is the key of a call in a context.
type inContext struct{}

// With returns a context that carries c to where the server is spoken to.
func With(ctx context.Context, c *Call) context.Context {
	if c == nil {
		return ctx
	}
	return context.WithValue(ctx, inContext{}, c)
}

// Of returns the call that ctx carries, or nil.
func Of(ctx context.Context) *Call {
	c, _ := ctx.Value(inContext{}).(*Call)
	return c
}

// Note notes what was done to the call's messages.
func (c *Call) Note(n Note) {
	if c != nil && c.observer.Watched() {
		c.note(n)
	}
}

func (c *Call) note(n Note) {
	n.Call, n.At = c, time.Now()
	c.observer.put(&n, 0, nil)
}

// asks reports whether the message asks the client something: it is a request of the server, or a result of which the client
// has to do something for its request to go on.
func (m *Message) asks() bool {
	if m.Edge != ClientEdge || m.Direction != ToClient {
		return false
	}
	if m.Kind != wire.Result {
		return m.Kind == wire.Request
	}
	switch wire.MethodOf([]byte(m.Method)) {
	case wire.ToolsCall, wire.PromptsGet, wire.ResourcesRead: // no other result asks for input
		return bytes.Contains(m.Raw, []byte("input_required")) && gjson.GetBytes(m.Raw, "result.resultType").Str == "input_required"
	}
	return false
}

// clock notes when the message passed, and for whom the call waits from then on.
func (c *Call) clock(m *Message) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if m.From == nil && (m.Edge == ClientEdge) == (m.Direction == ToServer) {
		c.came[m.Direction], c.because[m.Direction] = m, reason{}
	}
	switch {
	case m.Edge == ServerEdge && m.Direction == ToServer:
		c.wait(&c.timing.Server, m.At)
	case m.asks():
		c.wait(&c.timing.Client, m.At)
	case m.Edge == ClientEdge && m.Direction == ToClient && m.Kind.Response():
		c.wait(nil, m.At)
		t := c.timed(m.At)
		m.Timing = &t
	case m.Edge == ServerEdge && m.Kind == wire.Notification:
		// The server says that it is still at work.
	case m.Edge == ClientEdge && m.Direction == ToClient:
	default:
		c.wait(nil, m.At)
	}
}

// wait ends the wait under way, and begins another one; spent is nil if dragoman itself is at work. c.mu is held.
func (c *Call) wait(spent *time.Duration, now time.Time) {
	if c.spent != nil && now.After(c.since) {
		*c.spent += now.Sub(c.since)
	}
	c.spent, c.since = spent, now
}

// timed returns where the time went until now. c.mu is held.
func (c *Call) timed(now time.Time) Timing {
	t := c.timing
	t.Proxy = max(0, now.Sub(c.Began)-t.Client-t.Server)
	return t
}

// End ends the call. Only the first End counts.
func (c *Call) End(status, cause string) {
	if c == nil {
		return
	}
	now := time.Now()
	c.mu.Lock()
	again := c.ended
	c.ended = true
	c.wait(nil, now)
	t := c.timed(now)
	c.mu.Unlock()
	if !again {
		c.observer.put(&End{Call: c, At: now, Status: status, Cause: cause, Timing: t}, 0, nil)
	}
}

// Session tells of a session that began or ended.
func (o *Observer) Session(s Session) {
	if o.Watched() {
		told := s
		told.At = time.Now()
		o.put(&told, 0, nil)
	}
}

// Stderr tells of a line that the server's process wrote.
func (o *Observer) Stderr(line string) {
	if o.Watched() {
		o.put(&Stderr{At: time.Now(), Text: line[:min(len(line), maxCut)]}, len(line), nil)
	}
}
