package proxy

import (
	"context"
	"sync"

	"github.com/dragoman-proxy/dragoman/proxy/downstream"
)

// mailbox is what an inquiry has for one request of its client: messages, the last
// of which is the answer. What nobody has fetched is bounded; progress and log
// messages give way, oldest first.
type mailbox struct {
	signal chan struct{}

	mu     sync.Mutex
	queue  []letter
	closed bool
	left   func() // called once when the client leaves before the answer; may be nil
}

// letter is one message.
type letter struct {
	body   []byte
	last   bool
	status int // of HTTP, of the last one

	unbegun bool // the last one is an error, of a server that does not know the session
}

// maxLetters is how many messages wait between two looks of the client.
const maxLetters = 100

func newMailbox() *mailbox { return &mailbox{signal: make(chan struct{}, 1)} }

// put puts a message in, and reports whether anyone may still fetch it.
func (b *mailbox) put(l letter) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		return false
	}
	if b.queue = append(b.queue, l); len(b.queue) > maxLetters {
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

// next waits for a message. The error says that the client has left.
func (b *mailbox) next(ctx context.Context) (l letter, last bool, err error) {
	for {
		b.mu.Lock()
		if len(b.queue) > 0 {
			l = b.queue[0]
			b.queue = b.queue[1:]
			b.mu.Unlock()
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
	select {
	case b.signal <- struct{}{}:
	default:
	}
	if left != nil {
		left()
	}
}
