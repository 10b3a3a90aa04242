// Package memo remembers the translations of a server's lists.
//
// Servers send the same list again and again, to every client, and comparing bytes is far cheaper than translating
// them. If an answer to a list request equals the last one of its kind except for the id, its translation is taken
// from here. There is one [Memo] for all sessions. It is bounded, and can be cleared at any time.
package memo

import (
	"bytes"
	"slices"
	"sync"

	"github.com/dragoman-proxy/dragoman/translate"
	"github.com/dragoman-proxy/dragoman/translate/wire"
)

// Bounds of the remembered lists: bytes of one, bytes of all, and number of keys.
const (
	maxList  = 256 << 10
	maxLists = 4 << 20
	maxKeys  = 1024
)

// Memo remembers the last answer to each kind of list request, and its translation. When a bound is exceeded, it
// forgets all others and starts anew. The zero value is ready for use. It is safe for concurrent use.
type Memo struct {
	mu    sync.Mutex
	of    map[Key]*last
	bytes int
}

// Key is all that a translation depends on apart from the message.
type Key struct {
	By     *translate.Translator
	Method wire.Method
	Facts  wire.Facts
	Stamp  uint64 // a hash of the message's stamp, apart from ids; 0 for none
}

// KeyOf returns the key of the answers to method that by translates, without a stamp. ok is false if method has no lists.
func KeyOf(by *translate.Translator, method wire.Method, facts wire.Facts) (key Key, ok bool) {
	switch method {
	case wire.ToolsList, wire.ResourcesList, wire.ResourcesTemplatesList, wire.PromptsList:
		return Key{By: by, Method: method, Facts: facts}, true
	}
	return Key{}, false
}

// last is what is known about one key. Only the length of a first answer is kept: an answer that differs each time is
// not worth a copy.
type last struct {
	length int
	known  *Answer // nil until two answers of one length came in a row
}

// Answer is an answer to a list request, and its translation. It does not change.
type Answer struct {
	in, out frame
	same    bool        // the translation is the answer itself
	Losses  []wire.Loss // of the translation
	Updated bool        // the translation has other schemas; see package dialect
}

// Is reports whether message is this answer with the given id.
func (a *Answer) Is(message []byte, id string) bool { return a.in.is(message, id) }

// Same reports whether the translation is the answer itself.
func (a *Answer) Same() bool { return a.same }

// AppendTranslation appends the translation with the given id.
func (a *Answer) AppendTranslation(dst []byte, id string) []byte {
	if a.same {
		return a.in.append(dst, id)
	}
	return a.out.append(dst, id)
}

// Size returns the length of the translation without its id.
func (a *Answer) Size() int {
	if a.same {
		return a.in.size()
	}
	return a.out.size()
}

func (a *Answer) size() int { return a.in.size() + a.out.size() }

// frame is a message without its id.
type frame struct{ before, behind []byte }

// around returns message without its id, which is message[from:to]. It keeps no reference to message.
func around(message []byte, from, to int) frame {
	return frame{bytes.Clone(message[:from]), bytes.Clone(message[to:])}
}

// is reports whether message is f with this id.
func (f frame) is(message []byte, id string) bool {
	rest, ok := bytes.CutPrefix(message, f.before)
	if !ok || len(rest) != len(id)+len(f.behind) {
		return false
	}
	return string(rest[:len(id)]) == id && bytes.Equal(rest[len(id):], f.behind)
}

func (f frame) append(dst []byte, id string) []byte {
	return append(append(append(dst, f.before...), id...), f.behind...)
}

func (f frame) size() int { return len(f.before) + len(f.behind) }

// Pending is an answer as it was before the translation that is under way.
type Pending struct {
	key Key
	at  *last
	in  frame

	Updated bool // as in [Answer], which is set before [Memo.Learn]
}

// Find returns the answer that is known for a key, or nil if there is none.
func (l *Memo) Find(key Key) *Answer {
	l.mu.Lock()
	defer l.mu.Unlock()
	if at := l.of[key]; at != nil {
		return at.known
	}
	return nil
}

// Watch is called for an answer that differs from the remembered one. If the translation is worth remembering, it
// returns the answer for [Memo.Learn], otherwise nil: an answer that has another length than the one before may differ
// each time. The id of message is message[from:to]. Watch keeps no reference to message.
func (l *Memo) Watch(key Key, message []byte, from, to int) *Pending {
	at := l.worth(key, len(message)-(to-from))
	if at == nil {
		return nil
	}
	return &Pending{key: key, at: at, in: around(message, from, to)}
}

// worth notes the length of an answer that is not known, which is without its id. It returns what is known about its key if
// the answer should be known, otherwise nil.
func (l *Memo) worth(key Key, length int) *last {
	if length > maxList {
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	at := l.of[key]
	if at == nil {
		if l.of == nil || len(l.of) == maxKeys {
			l.of, l.bytes = make(map[Key]*last), 0
		}
		at = new(last)
		l.of[key] = at
	}
	if at.length != length {
		at.length = length
		return nil
	}
	return at
}

// Learn remembers that p was translated to out, which is a message, with these losses. It keeps no reference to out
// or losses.
func (l *Memo) Learn(p *Pending, out []byte, losses []wire.Loss) {
	var m wire.Message
	if m.Scan(out, nil) != nil {
		return
	}
	k := &Answer{in: p.in, Losses: slices.Clone(losses), Updated: p.Updated}
	from, to := m.IDAt()
	k.same = bytes.Equal(p.in.before, out[:from]) && bytes.Equal(p.in.behind, out[to:])
	if !k.same {
		k.out = around(out, from, to)
	}
	l.keep(p.key, p.at, k)
}

// keep makes k the known answer for a key, unless at was forgotten meanwhile: k may be what another configuration made.
func (l *Memo) keep(key Key, at *last, k *Answer) {
	if k.size() > 2*maxList {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.of[key] != at {
		return
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

// Forget removes all entries.
func (l *Memo) Forget() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.of, l.bytes = nil, 0
}

// Known returns the keys for which an answer is remembered.
func (l *Memo) Known() (keys []Key) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for key, at := range l.of {
		if at.known != nil {
			keys = append(keys, key)
		}
	}
	return keys
}
