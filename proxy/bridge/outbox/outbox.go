// Package outbox holds messages for a client until it fetches them.
//
// A call that waits for a user's answer goes on although no request of its client waits for it.
// An [Outbox] holds the messages of the call for one request of the client; [Kept] holds those
// that come between two requests.
package outbox

import (
	"context"
	"slices"
	"sync"

	"github.com/dragoman-proxy/dragoman/proxy/bytes/large"
	"github.com/dragoman-proxy/dragoman/proxy/protocol/mcp"
	"github.com/dragoman-proxy/dragoman/proxy/transport/downstream"
	"github.com/dragoman-proxy/dragoman/translate/wire"
)

// An Outbox holds messages for one request of a client; the last of them is the answer. It is
// bounded: if the client does not fetch them and the sender cannot wait, the oldest messages
// are dropped. The zero value is an empty outbox.
type Outbox struct {
	mu      sync.Mutex
	signal  chan struct{} // a message was put, or the outbox was closed; nil until Take has waited
	fetched chan struct{} // a message was fetched, or the outbox was closed; nil until AwaitRoom has waited
	queue   []Message
	bytes   int // size of queue
	closed  bool
	left    Leaver  // called once when the client leaves before the answer; may be nil
	reader  Reader  // nil for none
	counter Counter // nil for none
	kept    *large.Holding
}

// Counter counts messages that are dropped.
type Counter interface {
	// Dropped counts a message that is dropped for this reason.
	Dropped(reason string)
}

// Reader is a client's goroutine that may wait for something else than Take.
type Reader interface {
	// Wake tells that a message was put. It does not wait.
	Wake()
}

// A Message is one message for the client. It owns its bytes.
type Message struct {
	Body   []byte
	Last   bool
	For    []byte // the id of the request that a response is for, if it is known
	Status int    // HTTP status, of the last message
	Header []mcp.Header

	progress bool // it is a progress notification
	counted  bool // in the Holding of the outbox
	Unbegun  bool // the last message is an error: the server does not know the session
}

// How many messages and bytes wait until the client fetches them, which is more than a subscription may have to tell at once of what its
// client may have missed; and how many log messages wait between two rounds of questions, when no request of the client is open.
const (
	maxMessages = 512
	maxBytes    = 1 << 20
	maxKept     = 100
)

// New returns an empty outbox.
func New() *Outbox { return new(Outbox) }

// CountBy sets what counts the messages that are dropped.
func (b *Outbox) CountBy(c Counter) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.counter = c
}

// KeepIn sets what counts the messages, except for large ones, which are counted where they were copied.
func (b *Outbox) KeepIn(h *large.Holding) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.kept = h
}

// SetReader sets the reader to wake.
func (b *Outbox) SetReader(r Reader) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.reader = r
}

// Waiting reports whether Take has a message without waiting.
func (b *Outbox) Waiting() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.queue) > 0
}

// Leaver is told that a client has left.
type Leaver interface {
	// ClientLeft says that the client of b has left before the answer.
	ClientLeft(b *Outbox)
}

// OnLeave sets what is told, once, if the client leaves before the answer.
func (b *Outbox) OnLeave(left Leaver) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.left = left
}

// Put adds a message, and reports whether the client may still fetch it. It adds nothing after
// the last message.
func (b *Outbox) Put(l Message) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if n := len(b.queue); b.closed || n > 0 && b.queue[n-1].Last {
		return false
	}
	if b.kept != nil && len(l.Body) <= large.Size {
		for l.counted = b.kept.Keep(len(l.Body)) == nil; !l.counted && len(b.queue) > 0; l.counted = b.kept.Keep(len(l.Body)) == nil {
			b.dropOldest()
		}
	}
	b.queue, b.bytes = append(b.queue, l), b.bytes+len(l.Body)
	for len(b.queue) > 1 && b.full() {
		b.dropOldest()
	}
	if l.Last {
		b.left = nil
	}
	notify(b.signal)
	if b.reader != nil {
		b.reader.Wake()
	}
	return true
}

// dropOldest removes the first message. Called with b.mu held.
func (b *Outbox) dropOldest() {
	b.let(&b.queue[0])
	b.queue = append(b.queue[:0], b.queue[1:]...)
	if b.counter != nil {
		b.counter.Dropped("queue_full")
	}
}

// let stops counting a message. Called with b.mu held.
func (b *Outbox) let(l *Message) {
	b.bytes -= len(l.Body)
	if l.counted {
		b.kept.Drop(len(l.Body))
	}
}

// notify wakes the receiver of a channel with room for one value. A nil channel has none.
func notify(c chan<- struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// full reports whether the queue exceeds its bounds. Called with b.mu held.
func (b *Outbox) full() bool { return len(b.queue) > maxMessages || b.bytes > maxBytes }

// Crowded reports whether the queue is more than half full, so that the sender should wait with
// AwaitRoom.
func (b *Outbox) Crowded() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.crowded()
}

func (b *Outbox) crowded() bool {
	return !b.closed && (len(b.queue) > maxMessages/2 || b.bytes > maxBytes/2) && !b.queue[len(b.queue)-1].Last
}

// AwaitRoom waits until the client has fetched most of the queue or has left, or until ctx
// ends.
func (b *Outbox) AwaitRoom(ctx context.Context) {
	for {
		b.mu.Lock()
		if b.fetched == nil {
			b.fetched = make(chan struct{}, 1)
		}
		crowded := b.crowded()
		b.mu.Unlock()
		if !crowded {
			return
		}
		select {
		case <-b.fetched:
		case <-ctx.Done():
			return
		}
	}
}

// Take waits for a message. The error says that the client has left, or is the cause of ctx.
func (b *Outbox) Take(ctx context.Context) (l Message, last bool, err error) {
	for {
		b.mu.Lock()
		if len(b.queue) > 0 {
			l = b.queue[0]
			b.let(&l)
			b.queue = b.queue[1:]
			notify(b.fetched)
			b.mu.Unlock()
			return l, l.Last, nil
		}
		closed := b.closed
		if b.signal == nil {
			b.signal = make(chan struct{}, 1)
		}
		b.mu.Unlock()
		if closed {
			return Message{}, false, downstream.ErrClientLeft
		}
		select {
		case <-b.signal:
		case <-ctx.Done():
			b.Close()
			return Message{}, false, context.Cause(ctx)
		}
	}
}

// Close notes that the client fetches no more messages.
func (b *Outbox) Close() {
	b.mu.Lock()
	left := b.left
	b.left, b.closed = nil, true
	notify(b.fetched)
	notify(b.signal)
	b.mu.Unlock()
	if left != nil {
		left.ClientLeft(b)
	}
}

// Kept holds what the server sends while the client answers a question, for the request that
// brings the answers: the last progress notification, and the last log messages.
type Kept struct {
	messages []Message
	logs     int // number of log messages
	bytes    int
}

// Put stores a message of this method.
func (k *Kept) Put(l Message, method wire.Method) {
	if l.progress = method == wire.Progress; l.progress {
		k.drop(func(at Message) bool { return at.progress })
	} else {
		k.logs++
	}
	k.messages, k.bytes = append(k.messages, l), k.bytes+len(l.Body)
	for k.logs > 1 && (k.logs > maxKept || k.bytes > maxBytes) {
		k.drop(func(at Message) bool { return !at.progress })
	}
}

// Bytes returns the size of all messages.
func (k *Kept) Bytes() int { return k.bytes }

// drop removes the first message for which is returns true.
func (k *Kept) drop(is func(Message) bool) {
	at := slices.IndexFunc(k.messages, is)
	if at < 0 {
		return
	}
	k.bytes -= len(k.messages[at].Body)
	if !k.messages[at].progress {
		k.logs--
	}
	k.messages = slices.Delete(k.messages, at, at+1)
}

// Take removes and returns all messages.
func (k *Kept) Take() []Message {
	list := k.messages
	*k = Kept{}
	return list
}
