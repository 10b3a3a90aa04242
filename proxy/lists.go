package proxy

import (
	"bytes"
	"sync"

	"github.com/dragoman-proxy/dragoman/translate"
	"github.com/dragoman-proxy/dragoman/translate/wire"
)

// Bounds of what is remembered of lists, of one and of all together.
const (
	maxList  = 256 << 10
	maxLists = 4 << 20
	maxKeys  = 1024
)

// lists remember the last answer to each kind of list request and what became of
// it: servers say the same again and again, and comparing bytes is far cheaper
// than looking at them. Only the id may differ. Past their bound all is forgotten,
// and begins again. The zero value is ready for use, by many goroutines.
type lists struct {
	mu    sync.Mutex
	of    map[listKey]*lastList
	bytes int
}

// listKey is all that a translation depends on beside the message.
type listKey struct {
	by     *translate.Translator
	method wire.Method
	facts  wire.Facts
}

// lastList is what is known of one key. A first answer leaves its length only: what
// differs each time is not worth a copy.
type lastList struct {
	length int
	known  *knownList // nil until two answers of one length came in a row
}

// knownList is an answer and its translation, each around the id. It does not
// change.
type knownList struct {
	in, out aroundID
	same    bool // the translation is the answer itself
	losses  []wire.Loss
}

// aroundID is a message without its id.
type aroundID struct{ before, behind []byte }

// around cuts message, of which nothing is kept, at its id.
func around(message []byte, from, to int) aroundID {
	return aroundID{bytes.Clone(message[:from]), bytes.Clone(message[to:])}
}

// is reports whether message is a, with this id.
func (a aroundID) is(message []byte, id string) bool {
	rest, ok := bytes.CutPrefix(message, a.before)
	if !ok || len(rest) != len(id)+len(a.behind) {
		return false
	}
	return string(rest[:len(id)]) == id && bytes.Equal(rest[len(id):], a.behind)
}

func (a aroundID) append(dst []byte, id string) []byte {
	return append(append(append(dst, a.before...), id...), a.behind...)
}

func (k *knownList) size() int {
	return len(k.in.before) + len(k.in.behind) + len(k.out.before) + len(k.out.behind)
}

// find returns what is known of a key; nil for nothing.
func (l *lists) find(key listKey) *knownList {
	l.mu.Lock()
	defer l.mu.Unlock()
	if at := l.of[key]; at != nil {
		return at.known
	}
	return nil
}

// worth reports whether an answer that is not known should be, and notes that it
// came. It has length bytes without its id.
func (l *lists) worth(key listKey, length int) bool {
	if length > maxList {
		return false
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	at := l.of[key]
	if at == nil {
		if l.of == nil || len(l.of) == maxKeys {
			l.of, l.bytes = make(map[listKey]*lastList), 0
		}
		at = new(lastList)
		l.of[key] = at
	}
	again := at.length == length
	at.length = length
	return again
}

// keep makes k what is known of a key.
func (l *lists) keep(key listKey, k *knownList) {
	if k.size() > 2*maxList {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	at := l.of[key]
	if at == nil {
		return // forgotten just now
	}
	if at.known != nil {
		l.bytes -= at.known.size()
		at.known = nil
	}
	if l.bytes += k.size(); l.bytes > maxLists {
		clear(l.of)
		l.bytes = k.size()
		l.of[key] = at
	}
	at.known = k
}

// forget lets go of everything.
func (l *lists) forget() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.of, l.bytes = nil, 0
}

// listKey is the key of what x waits for; ok is false where that is no list.
func (x *exchange) listKey(down *translate.Translator) (key listKey, ok bool) {
	if x.call == nil || x.errand != nil || x.answered || x.call.note != nil || down.From().Modern || down.To().Modern {
		return key, false
	}
	switch x.call.method {
	case wire.ToolsList, wire.ResourcesList, wire.ResourcesTemplatesList, wire.PromptsList:
		return listKey{down, x.call.method, x.s.Facts}, true
	}
	return key, false
}

// again is the translation of raw, where raw is the known list again. x.msg then has
// its kind and method only.
func (x *exchange) again(key listKey, raw []byte) (out []byte, ok bool) {
	k := x.srv.lists.find(key)
	if k == nil || !k.in.is(raw, x.call.id) {
		return nil, false
	}
	x.msg.Kind, x.msg.Method = wire.Result, key.method
	x.id = append(x.id[:0], x.call.id...)
	x.answered, x.final, x.verdict = true, true, succeeded
	x.s.open.end(x.call)
	out = raw
	if !k.same {
		out = x.own(k.out.append(x.buf[:0], x.call.id), raw)
	}
	x.srv.losses.note(key.by.From(), key.by.To(), key.method, k.losses, x.from)
	return out, true
}

// learn remembers that in, cut at its id, became out, which is a message.
func (l *lists) learn(key listKey, in aroundID, out []byte, losses []wire.Loss) {
	k := &knownList{in: in, losses: append([]wire.Loss(nil), losses...)}
	var m wire.Message
	if m.Scan(out, nil) != nil {
		return
	}
	from, to := m.IDAt()
	k.same = bytes.Equal(in.before, out[:from]) && bytes.Equal(in.behind, out[to:])
	if !k.same {
		k.out = around(out, from, to)
	}
	l.keep(key, k)
}
