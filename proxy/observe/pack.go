package observe

import (
	"bytes"
	"encoding/binary"
	"slices"
	"time"

	"github.com/dragoman-proxy/dragoman/proxy/protocol/mcp"
	"github.com/dragoman-proxy/dragoman/translate"
	"github.com/dragoman-proxy/dragoman/translate/wire"
)

// This file makes one text of a call that has ended. Most calls are never looked at: so they take a third of the memory, and
// the garbage collector has nothing to follow in them.

// packApart is the length from which a message is not copied into the text.
const packApart = 1 << 10

// size returns how many bytes the call takes.
func (p *packedCall) size() int {
	n := cap(p.text) + cap(p.long)*24
	for _, raw := range p.long {
		n += cap(raw)
	}
	return n
}

// pack makes one text of all that r has. ok is false if that is not possible: what was read from a file has changes.
//
// What there is of messages is copied into memory.
func (r *contents) pack(memory *chunks) (p packedCall, ok bool) {
	for _, m := range r.messages {
		if m.Recorded != nil {
			return p, false
		}
	}
	w := packer{text: memory.scratch[:0]}
	c := r.call
	w.uint(c.N)
	w.time(c.Began)
	w.flag(c.Server)
	w.uint(uint64(c.Kind))
	w.str(c.Method, c.Tool, c.ID, c.Subject)
	if w.flag(c.short); c.short {
		s := c.summary()
		w.summary(&s)
	}
	w.uint(uint64(len(r.messages)))
	for i, m := range r.messages {
		w.message(m, r.messages[:i])
	}
	w.uint(uint64(len(r.notes)))
	for _, n := range r.notes {
		w.time(n.At)
		w.str(n.By, n.What, n.Path, n.Detail)
		w.uint(uint64(n.To), uint64(n.TokensBefore), uint64(n.TokensAfter))
	}
	w.time(r.end.At)
	w.str(r.end.Status, r.end.Cause)
	w.timing(&r.end.Timing)
	memory.scratch = w.text
	if w.failed {
		return p, false
	}
	memory.place(&w.p, w.text)
	return w.p, true
}

// packer writes a packed call.
type packer struct {
	p      packedCall
	text   []byte
	failed bool // there are more translators than there is room for
}

func (w *packer) uint(all ...uint64) {
	for _, n := range all {
		w.text = binary.AppendUvarint(w.text, n)
	}
}

func (w *packer) flag(is bool) {
	if is {
		w.uint(1)
	} else {
		w.uint(0)
	}
}

func (w *packer) time(t time.Time) { w.text = binary.AppendVarint(w.text, t.UnixNano()) }

func (w *packer) str(all ...string) {
	for _, s := range all {
		w.uint(uint64(len(s)))
		w.text = append(w.text, s...)
	}
}

// bytes writes texts, and keeps nil apart from an empty one.
func (w *packer) bytes(all ...[]byte) {
	for _, b := range all {
		if w.flag(b != nil); b != nil {
			w.str(wire.View(b))
		}
	}
}

func (w *packer) timing(t *Timing) { w.uint(uint64(t.Client), uint64(t.Proxy), uint64(t.Server)) }

func (w *packer) message(m *Message, before []*Message) {
	w.uint(m.Seq)
	w.time(m.At)
	w.uint(uint64(m.Edge), uint64(m.Direction), uint64(m.Kind), uint64(m.Status), uint64(m.Size))
	w.str(m.Method, m.ID, m.SHA256, m.Rev)
	w.flag(m.Cut)
	w.uint(uint64(len(m.Header)))
	for _, h := range m.Header {
		w.str(h.Name, h.Value)
	}
	from := slices.IndexFunc(before, func(o *Message) bool { return m.From != nil && o.Seq == m.From.Seq })
	w.uint(uint64(from + 1))
	switch {
	case from >= 0 && m.Unchanged():
		w.uint(sameText)
	case len(m.Raw) >= packApart:
		w.uint(longApart)
		w.p.long = append(w.p.long, m.Raw)
	default:
		w.uint(textHere)
		w.bytes(m.Raw)
	}
	if w.flag(m.Timing != nil); m.Timing != nil {
		w.timing(m.Timing)
	}
	w.losses(m.Losses)
	w.why(&m.Why)
}

func (w *packer) losses(list []wire.Loss) {
	w.uint(uint64(len(list)))
	for _, l := range list {
		w.str(l.Rule, l.What)
		w.uint(uint64(l.Level), uint64(l.Count), uint64(l.Lost))
		w.flag(l.Standin)
	}
}

func (w *packer) summary(s *summary) {
	w.uint(uint64(s.messages), uint64(s.size.Before), uint64(s.size.After))
	if w.flag(s.more != nil); s.more != nil {
		w.losses(s.more.losses)
		w.uint(uint64(len(s.more.by)))
		w.str(s.more.by...)
		w.uint(uint64(s.more.tokens.Before), uint64(s.more.tokens.After))
	}
}

// Where the text of a message is.
const (
	textHere = iota
	longApart
	sameText // that of From
)

func (w *packer) why(y *Why) {
	if w.flag(y.Translator != nil); y.Translator == nil {
		return
	}
	by := slices.IndexFunc(w.p.by[:], func(t *translate.Translator) bool { return t == nil || t == y.Translator })
	if by < 0 {
		w.failed = true
		return
	}
	w.p.by[by] = y.Translator
	k := &y.Known
	w.uint(uint64(by), uint64(k.Method), uint64(k.Facts))
	w.bytes(k.Note)
	if w.flag(k.Stamp != nil); k.Stamp != nil {
		s := *k.Stamp
		for _, part := range partsOf(&s) {
			w.bytes(*part)
		}
		w.text = binary.AppendVarint(w.text, s.TTL)
	}
}

// unpack returns what was packed. It is valid as long as p is in the ring: see [contents.owned].
func (p *packedCall) unpack(peers *Peers) *contents {
	r := unpacker{rest: p.text, p: p}
	c := &Call{Peers: peers, N: r.uint(), Began: r.time(), Server: r.flag(), Head: Head{Kind: wire.Kind(r.uint()), Method: r.method(), Tool: r.text(), ID: r.text(), Subject: r.text()}}
	if c.short = r.flag(); c.short {
		c.sum = r.summary()
	}
	memory := make([]Message, r.uint())
	messages := make([]*Message, 0, len(memory))
	for i := range memory {
		r.message(&memory[i], c, messages)
		messages = append(messages, &memory[i])
	}
	notes := make([]*Note, 0, r.uint())
	for range cap(notes) {
		n := &Note{Call: c, At: r.time(), By: r.text(), What: r.text(), Path: r.text(), Detail: r.text()}
		n.To, n.TokensBefore, n.TokensAfter = Direction(r.uint()), int(r.uint()), int(r.uint())
		notes = append(notes, n)
	}
	end := &End{Call: c, At: r.time(), Status: r.text(), Cause: r.text(), Timing: r.timing()}
	return &contents{call: c, messages: messages, notes: notes, end: end}
}

// owned gives unpacked contents memory of their own, and returns them.
func (r *contents) owned() *contents {
	for _, m := range slices.Backward(r.messages) { // a message is behind the one that it was made of
		if m.Why.Known = Cloned(m.Why.Known); m.Unchanged() {
			m.Raw = nil
		} else {
			m.Raw = bytes.Clone(m.Raw)
		}
	}
	for _, m := range r.messages {
		if m.From != nil && m.Raw == nil && m.Size == m.From.Size {
			m.Raw = m.From.Raw
		}
	}
	return r
}

// unpacker reads a packed call.
type unpacker struct {
	rest []byte
	p    *packedCall
	long int // messages of p.long that were read
}

func (r *unpacker) uint() uint64 {
	n, size := binary.Uvarint(r.rest)
	r.rest = r.rest[size:]
	return n
}

func (r *unpacker) flag() bool { return r.uint() == 1 }

func (r *unpacker) int() int64 {
	n, size := binary.Varint(r.rest)
	r.rest = r.rest[size:]
	return n
}

func (r *unpacker) time() time.Time { return time.Unix(0, r.int()) }

func (r *unpacker) part() []byte {
	n := r.uint()
	part := r.rest[:n:n]
	r.rest = r.rest[n:]
	return part
}

func (r *unpacker) text() string { return string(r.part()) }

// method is text for what is mostly the name of a known method, which takes no memory.
func (r *unpacker) method() string {
	name := r.part()
	if m := wire.MethodOf(name); m != wire.OtherMethod && m < wire.NumMethods && m.String() == wire.View(name) {
		return m.String()
	}
	return string(name)
}

func (r *unpacker) bytes() []byte {
	if !r.flag() {
		return nil
	}
	return r.part()
}

func (r *unpacker) timing() Timing {
	return Timing{time.Duration(r.uint()), time.Duration(r.uint()), time.Duration(r.uint())}
}

func (r *unpacker) message(m *Message, c *Call, before []*Message) {
	m.Call, m.Seq, m.At, m.Edge, m.Direction = c, r.uint(), r.time(), Edge(r.uint()), Direction(r.uint())
	m.Kind, m.Status, m.Size = wire.Kind(r.uint()), int(r.uint()), int(r.uint())
	m.Method, m.ID, m.SHA256, m.Rev = r.method(), r.text(), r.text(), r.text()
	m.Cut = r.flag()
	for range r.uint() {
		m.Header = append(m.Header, mcp.Header{Name: r.text(), Value: r.text()})
	}
	if from := r.uint(); from > 0 {
		m.From = before[from-1]
	}
	switch r.uint() {
	case textHere:
		m.Raw = r.bytes()
	case longApart:
		m.Raw = r.p.long[r.long]
		r.long++
	case sameText:
		m.Raw = m.From.Raw
	}
	if r.flag() {
		t := r.timing()
		m.Timing = &t
	}
	m.Losses = r.losses()
	if r.flag() {
		m.Why = r.why()
	}
}

func (r *unpacker) losses() (list []wire.Loss) {
	for range r.uint() {
		list = append(list, wire.Loss{Rule: r.text(), What: r.text(), Level: wire.Level(r.uint()), Count: int(r.uint()), Lost: int(r.uint()), Standin: r.flag()})
	}
	return list
}

func (r *unpacker) summary() summary {
	s := summary{messages: int(r.uint()), size: RowSize{int(r.uint()), int(r.uint())}}
	if r.flag() {
		s.more = &summaryMore{losses: r.losses()}
		for range r.uint() {
			s.more.by = append(s.more.by, r.text())
		}
		s.more.tokens = RowSize{int(r.uint()), int(r.uint())}
	}
	return s
}

func (r *unpacker) why() Why {
	y := Why{Translator: r.p.by[r.uint()], Known: translate.Known{Method: wire.Method(r.uint()), Facts: wire.Facts(r.uint())}}
	y.Known.Note = r.bytes()
	if r.flag() {
		y.Known.Stamp = new(wire.Stamp)
		for _, part := range partsOf(y.Known.Stamp) {
			*part = r.bytes()
		}
		y.Known.Stamp.TTL = r.int()
	}
	return y
}
