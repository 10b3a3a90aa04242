package proxy

import (
	"context"
	"slices"
	"sync"

	"github.com/dragoman-proxy/dragoman/proxy/downstream"
	"github.com/dragoman-proxy/dragoman/proxy/mcp"
	"github.com/dragoman-proxy/dragoman/translate/wire"
)

// mailbox is what an inquiry has for one request of its client: messages, the last
// of which is the answer. What nobody has fetched is bounded; progress and log
// messages give way, oldest first, where whoever brings them cannot wait.
type mailbox struct {
	signal  chan struct{}
	fetched chan struct{} // something was

	mu     sync.Mutex
	queue  []letter
	bytes  int // of it
	closed bool
	left   func() // called once when the client leaves before the answer; may be nil
}

// letter is one message.
type letter struct {
	body   []byte
	last   bool
	status int // of HTTP, of the last one
	header []mcp.Header

	progress bool // it says how far things have come
	unbegun  bool // the last one is an error, of a server that does not know the session
}

// How much waits between two looks of the client; and how many log messages between
// two rounds of questions, when there is nobody to look.
const (
	maxLetters     = 256
	maxLetterBytes = 1 << 20
	maxKept        = 100
)

func newMailbox() *mailbox {
	return &mailbox{signal: make(chan struct{}, 1), fetched: make(chan struct{}, 1)}
}

// put puts a message in, and reports whether anyone may still fetch it. Nothing comes
// behind the last one.
func (b *mailbox) put(l letter) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if n := len(b.queue); b.closed || n > 0 && b.queue[n-1].last {
		return false
	}
	b.queue, b.bytes = append(b.queue, l), b.bytes+len(l.body)
	for len(b.queue) > 1 && b.full() {
		b.bytes -= len(b.queue[0].body)
		b.queue = append(b.queue[:0], b.queue[1:]...)
	}
	if l.last {
		b.left = nil
	}
	select {
	case b.signal <- struct{}{}:
	default:
	}
	return true
}

// full is called with b.mu held.
func (b *mailbox) full() bool { return len(b.queue) > maxLetters || b.bytes > maxLetterBytes }

// crowded reports whether the next messages had better wait.
func (b *mailbox) crowded() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return !b.closed && (len(b.queue) > maxLetters/2 || b.bytes > maxLetterBytes/2) && !b.queue[len(b.queue)-1].last
}

// awaitRoom waits until the client has fetched most of what there is, or left.
func (b *mailbox) awaitRoom(ctx context.Context) {
	for b.crowded() {
		select {
		case <-b.fetched:
		case <-ctx.Done():
			return
		}
	}
}

// wakeWriter says that something was fetched, or nothing more will be.
func (b *mailbox) wakeWriter() {
	select {
	case b.fetched <- struct{}{}:
	default:
	}
}

// next waits for a message. The error says that the client has left.
func (b *mailbox) next(ctx context.Context) (l letter, last bool, err error) {
	for {
		b.mu.Lock()
		if len(b.queue) > 0 {
			l = b.queue[0]
			b.queue, b.bytes = b.queue[1:], b.bytes-len(l.body)
			b.mu.Unlock()
			b.wakeWriter()
			return l, l.last, nil
		}
		closed := b.closed
		b.mu.Unlock()
		if closed {
			return letter{}, false, downstream.ErrClientLeft
		}
		select {
		case <-b.signal:
		case <-ctx.Done():
			b.close()
			return letter{}, false, context.Cause(ctx)
		}
	}
}

// close says that nobody fetches anything any more.
func (b *mailbox) close() {
	b.mu.Lock()
	left := b.left
	b.left, b.closed = nil, true
	b.mu.Unlock()
	b.wakeWriter()
	select {
	case b.signal <- struct{}{}:
	default:
	}
	if left != nil {
		left()
	}
}

// meanwhile is what the server says while its client is asked something, for the
// request that brings the answers: how far things have come, and the last log messages.
type meanwhile struct {
	letters []letter
	logs    int // among them
	bytes   int
}

// put keeps a message of this method.
func (k *meanwhile) put(l letter, method wire.Method) {
	if l.progress = method == wire.Progress; l.progress {
		k.drop(func(at letter) bool { return at.progress })
	} else {
		k.logs++
	}
	k.letters, k.bytes = append(k.letters, l), k.bytes+len(l.body)
	for k.logs > 1 && (k.logs > maxKept || k.bytes > maxLetterBytes) {
		k.drop(func(at letter) bool { return !at.progress })
	}
}

// drop drops the first message that is so.
func (k *meanwhile) drop(is func(letter) bool) {
	at := slices.IndexFunc(k.letters, is)
	if at < 0 {
		return
	}
	k.bytes -= len(k.letters[at].body)
	if !k.letters[at].progress {
		k.logs--
	}
	k.letters = slices.Delete(k.letters, at, at+1)
}

// take takes everything.
func (k *meanwhile) take() []letter {
	list := k.letters
	*k = meanwhile{}
	return list
}
