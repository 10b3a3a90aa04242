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
	"time"

	"github.com/tidwall/gjson"

	"github.com/dragoman-proxy/dragoman/proxy/protocol/mcp"
	"github.com/dragoman-proxy/dragoman/translate"
	"github.com/dragoman-proxy/dragoman/translate/wire"
)

// Watched reports whether there is a reader. It may be called on nil.
func (o *Observer) Watched() bool { return o != nil && o.tap.Load() != nil }

// Calls returns the number of the newest call.
func (o *Observer) Calls() uint64 { return o.calls.Load() }

// Attach makes r a reader of all there is under this name, until detach is called. detach returns when r has got all that
// waits for it.
func (o *Observer) Attach(name string, r Reader) (detach func()) {
	return o.AttachWithin(Bounds{Queue: queueBytes}, name, r)
}

// AttachWithin is Attach for a reader that can do with less. While another one wants all, it gets all, too.
func (o *Observer) AttachWithin(b Bounds, name string, r Reader) (detach func()) {
	q := newQueue(name, b, o.Lost)
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
	t := &tap{queues: list, long: list[0].long, calls: list[0].calls}
	for _, q := range list[1:] {
		t.long, t.calls = t.long.or(q.long), t.calls.or(q.calls)
	}
	o.tap.Store(t)
}

// put hands an event to all readers. m is the message that it is, or nil: it gets its number in the order of the events.
func (o *Observer) put(what any, size int, m *Message) {
	t := o.tap.Load()
	if t == nil {
		return
	}
	t.order.Lock()
	defer t.order.Unlock()
	if m != nil {
		m.Seq = o.seq.Add(1)
	}
	for _, q := range t.queues {
		q.put(event{what, size + overhead})
	}
}

// Keep returns a copy of a message that a hook is about to change, or an empty one if there is no reader.
func (o *Observer) Keep(raw []byte) Copy { return o.keep(raw, false) }

// KeepFirst is Keep for the first message of a call. It copies nothing if the call is only summarized.
func (o *Observer) KeepFirst(raw []byte) Copy { return o.keep(raw, true) }

func (o *Observer) keep(raw []byte, first bool) Copy {
	if o == nil || raw == nil {
		return Copy{}
	}
	t := o.tap.Load()
	if t == nil {
		return Copy{}
	}
	now := time.Now()
	if first && !t.calls.take(1, now) {
		return Copy{Size: len(raw), at: now, short: true}
	}
	c := t.copy(raw, now)
	c.at = now
	return c
}

// copy copies a message, or its beginning.
func (t *tap) copy(raw []byte, now time.Time) Copy {
	switch {
	case len(raw) > longMessage && !t.long.take(len(raw), now):
		return beginningOf(raw)
	case len(raw) <= maxWhole:
		return Copy{Raw: bytes.Clone(raw), Size: len(raw)}
	}
	sum := sha256.Sum256(raw)
	return Copy{Raw: bytes.Clone(raw[:maxCut]), Size: len(raw), Cut: true, SHA256: hex.EncodeToString(sum[:])}
}

// beginningOf copies what is kept of a long message while too many pass.
func beginningOf(raw []byte) Copy {
	return Copy{Raw: bytes.Clone(raw[:longMessage]), Size: len(raw), Cut: true}
}

// Begin begins the call of a message. server says that the server sends it outside of any call. It returns nil if there is
// no reader.
func (o *Observer) Begin(p *Peers, first Copy, server bool) *Call {
	if !o.Watched() {
		return nil
	}
	return o.BeginWith(p, first, first.head(), server)
}

// BeginWith is Begin for a message that was read.
func (o *Observer) BeginWith(p *Peers, first Copy, h Head, server bool) *Call {
	if !o.Watched() {
		return nil
	}
	began := first.at
	if began.IsZero() {
		began = time.Now()
	}
	if first.short {
		return &Call{N: o.calls.Add(1), Began: began, Peers: p, Server: server, Head: h, observer: o, short: true}
	}
	// One allocation takes a fraction of the time that one for each message would.
	with := new(struct {
		Call
		first [maxReady]Message
	})
	with.Call = Call{N: o.calls.Add(1), Began: began, Peers: p, Server: server, Head: h, observer: o, first: with.first[:0]}
	return &with.Call
}

// HeadOf returns what is known of m, which was scanned. It keeps no reference to the message.
func HeadOf(m *wire.Message) Head {
	h := Head{Kind: m.Kind}
	switch {
	case m.Kind.Response():
	case m.Method != wire.OtherMethod && m.Method < wire.NumMethods:
		h.Method = m.Method.String()
	default:
		h.Method = short(wire.View(m.MethodName()))
	}
	id, tool := wire.View(m.ID()), ""
	if len(id) > maxName {
		id = id[:maxName] + "…"
	}
	if name := m.Name(); len(name) > 0 && len(name) < maxName {
		tool = gjson.Parse(wire.View(name)).String()
	}
	id = strings.ToValidUTF8(id, "")
	var both strings.Builder // a copy in one piece of memory; what + returns is no copy if one of them is empty
	both.Grow(len(id) + len(tool))
	both.WriteString(id)
	both.WriteString(tool)
	h.ID, h.Tool = both.String()[:len(id)], both.String()[len(id):]
	h.Subject = subjectOf(m)
	return h
}

// subjectOf returns [Head.Subject] of a message. It keeps no reference to it.
func subjectOf(m *wire.Message) string {
	if m.Kind.Response() {
		return ""
	}
	of := func(path string) string { return short(gjson.Get(wire.View(m.Params()), path).String()) }
	switch m.Method {
	case wire.ResourcesRead, wire.ResourcesSubscribe, wire.ResourcesUnsubscribe, wire.ResourcesUpdated:
		return of("uri")
	case wire.CompletionComplete:
		return cmp.Or(of("ref.name"), of("ref.uri"))
	case wire.LoggingSetLevel:
		return of("level")
	}
	return ""
}

// head reads what it can of a message.
func (c *Copy) head() (h Head) {
	var m wire.Message
	if !c.Cut && m.Scan(c.Raw, nil) == nil {
		return HeadOf(&m)
	}
	v := c.entire("method", "id", "params.name", "result", "error")
	h.Method, h.ID, h.Tool = short(v[0].String()), short(v[1].Raw), short(v[2].String())
	switch {
	case h.Method != "" && h.ID != "":
		h.Kind = wire.Request
	case h.Method != "":
		h.Kind = wire.Notification
	case v[4].Exists():
		h.Kind = wire.Error
	case v[3].Exists(), c.Cut: // what is long is a result
		h.Kind = wire.Result
	}
	return h
}

// entire returns values of a message, without one that was cut: gjson reads broken JSON as well.
func (c *Copy) entire(paths ...string) []gjson.Result {
	v := gjson.GetManyBytes(c.Raw, paths...)
	for i := range v {
		if c.Cut && !v[i].IsObject() && bytes.HasSuffix(c.Raw, []byte(v[i].Raw)) {
			v[i] = gjson.Result{}
		}
	}
	return v
}

// Add adds a message to the call, and returns it. m has Edge, Direction and Copy, and whichever of the other fields are
// known; Add sets the rest. A response to the client is to the message that the call began with, unless m says otherwise.
func (c *Call) Add(m Message) *Message {
	if c == nil || !c.observer.Watched() {
		return nil
	}
	return c.add(&m)
}

// add is Add while there is a reader. It keeps a copy of from.
func (c *Call) add(from *Message) *Message {
	from.read()
	c.tellCredential(from.Header)
	size := len(from.Raw)
	if f := from.From; f != nil && from.same(f) {
		from.Raw, size = f.Raw, 0
	}
	from.Call = c
	if from.At = from.Copy.at; from.At.IsZero() {
		from.At = time.Now()
	}
	c.mu.Lock()
	if c.short {
		c.sum.add(c, from)
		from.Losses = nil // the summary has them
		if !c.wants(from) {
			c.clock(from)
			c.mu.Unlock()
			return nil
		}
	}
	if from.Method == "" && from.Kind.Response() && from.Edge == ClientEdge && from.Direction == ToClient {
		from.Method = c.Method
	}
	m := c.place()
	*m = *from
	c.clock(m)
	if m.From == nil && m.cameIn() {
		c.came[m.Direction] = m
		if c.because != nil {
			c.because[m.Direction] = reason{}
		}
	}
	c.mu.Unlock()
	c.observer.put(m, size, m)
	return m
}

// tellCredential calls [Observer.Credential].
func (c *Call) tellCredential(header []mcp.Header) {
	for _, h := range header {
		if c.observer.Credential != nil && strings.EqualFold(h.Name, "Authorization") {
			c.observer.Credential(h.Value)
		}
	}
}

// place returns memory for a message. c.mu is held.
func (c *Call) place() *Message {
	if n := len(c.first); n < cap(c.first) {
		c.first = c.first[:n+1]
		return &c.first[n]
	}
	return new(Message)
}

// read finds out what kind of message m is, if the hook does not know.
func (m *Message) read() {
	f := m.From
	switch {
	case m.Kind != 0:
	case f != nil && f.Kind != 0 && (len(m.Raw) > longMessage || m.Cut || m.same(f)): // it takes long to read, and is still of that kind
		m.Kind = f.Kind
	default:
		h := m.Copy.head()
		m.Kind, m.ID = h.Kind, h.ID
		if m.Method == "" || !h.Kind.Response() && h.Kind != 0 {
			m.Method = h.Method
		}
	}
	if f != nil && m.Method == "" {
		m.Method = f.Method
	}
	if m.Method == "" && m.Kind != 0 && !m.Kind.Response() {
		m.Method = short(m.entire("method")[0].String())
	}
}

// same reports whether m has the text of f, as far as that is known.
func (m *Message) same(f *Message) bool {
	switch {
	case f.Size != m.Size || f.Cut != m.Cut || m.Cut && (m.SHA256 == "" || m.SHA256 != f.SHA256):
		return false
	case len(f.Raw) > 0 && len(m.Raw) > 0 && &f.Raw[0] == &m.Raw[0]:
		return true
	}
	return bytes.Equal(f.Raw, m.Raw)
}

// Came adds a message that came in, and remembers it as what the next message of [Call.Went] in its direction is made of.
func (c *Call) Came(m Message) *Message { return c.Add(m) }

// Went adds what became of the message that came in last. lost is what its translation has lost.
func (c *Call) Went(edge Edge, to Direction, raw []byte, lost ...wire.Loss) *Message {
	if c == nil {
		return nil
	}
	t := c.observer.tap.Load()
	if t == nil {
		return nil
	}
	left, now := Copy{}, time.Now()
	if c.short && c.summarized(&Message{At: now, Edge: edge, Direction: to, Copy: Copy{Size: len(raw), at: now}, Losses: lost}, raw) {
		return nil
	}
	c.mu.Lock()
	from := c.came[to]
	c.mu.Unlock()
	switch {
	case from == nil:
		left = t.copy(raw, now)
	case !from.Cut && bytes.Equal(from.Raw, raw):
		left = from.Copy // unchanged
	case from.Cut && from.SHA256 == "" && len(raw) > longMessage: // it cannot be compared
		left = beginningOf(raw)
	default:
		left = t.copy(raw, now)
	}
	left.at = now
	return c.become(&Message{Edge: edge, Direction: to, Copy: left, Losses: lost})
}

// Became is Went for a message of which more is known.
func (c *Call) Became(m Message) *Message {
	if c == nil || !c.observer.Watched() {
		return nil
	}
	return c.become(&m)
}

func (c *Call) become(m *Message) *Message {
	c.mu.Lock()
	m.From = c.came[m.Direction]
	if c.because != nil {
		if b := &c.because[m.Direction]; b.Translator != nil && m.Why.Translator == nil {
			m.Why, m.Losses = b.Why, b.lost
		}
	}
	c.mu.Unlock()
	return c.add(m)
}

// Because says how the message that came in last in a direction was translated. [Call.Went] adds that to what becomes of it.
func (c *Call) Because(to Direction, w Why, lost []wire.Loss) {
	if c == nil || c.short || !c.observer.Watched() {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	w.Known = Cloned(w.Known)
	if c.because == nil {
		c.because = new([3]reason)
	}
	c.because[to] = reason{w, slices.Clone(lost)}
}

// Number returns the number of the call, and 0 for one that nothing observes.
func (c *Call) Number() uint64 {
	if c == nil {
		return 0
	}
	return c.N
}

// Short reports whether the call is only summarized: what its messages are made of need not be said.
func (c *Call) Short() bool { return c != nil && c.short }

// Keep is [Observer.Keep] for a message of the call.
func (c *Call) Keep(raw []byte) Copy {
	if c == nil {
		return Copy{}
	}
	return c.observer.Keep(raw)
}

// KeepAnswer is Keep for a message of the server. It copies nothing that the summary of a call does not need.
func (c *Call) KeepAnswer(raw []byte) Copy {
	if c != nil && c.short && !bytes.Contains(raw[:min(len(raw), 256)], methodName) && c.observer.Watched() {
		return Copy{Size: len(raw), at: time.Now()}
	}
	return c.Keep(raw)
}

var methodName = []byte(`"method"`) // in a question of the server

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
	switch {
	case c == nil || !c.observer.Watched():
	case c.short:
		c.noteShort(&n)
	default:
		c.note(n)
	}
}

func (c *Call) note(n Note) {
	n.Call, n.At = c, time.Now()
	c.observer.put(&n, 0, nil)
}

// WaitsForServer notes that the call waits for another process, to which its message goes as it came.
func (c *Call) WaitsForServer() {
	if c == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.wait(&c.timing.Server, c.Began)
}

// End ends the call. Only the first End counts.
func (c *Call) End(status, cause string) {
	if c == nil {
		return
	}
	now := time.Now()
	c.mu.Lock()
	again := c.ended
	if !again {
		c.ended = true
		c.wait(nil, now)
		c.end = End{Call: c, At: now, Status: status, Cause: cause, Timing: c.timed(now)}
	}
	c.mu.Unlock()
	if !again {
		c.observer.put(&c.end, 0, nil)
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
		o.put(&Stderr{At: time.Now(), Text: beginning(line)}, len(line), nil)
	}
}

// beginning returns a line, cut if it is long.
func beginning(line string) string {
	if len(line) <= maxCut {
		return line
	}
	return line[:maxCut] + "…"
}

// KnownOf returns what a translation knows of m. It keeps nothing of m's text.
func KnownOf(m *wire.Message) translate.Known {
	k := translate.Known{Facts: m.Facts, Stamp: m.Stamp}
	if m.Kind.Response() {
		k.Method, k.Note = m.Method, m.Note
	}
	return Cloned(k)
}
