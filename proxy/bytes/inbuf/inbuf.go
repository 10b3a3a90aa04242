// Package inbuf reads a source of messages into a buffer, which lends memory for large messages and gives it back when it holds
// only small ones again.
package inbuf

import "io"

const (
	firstBuffer = 4 << 10
	// KeepBuffer is the largest buffer kept while nothing needs it.
	KeepBuffer = 64 << 10
	// partial is the size of the first buffer for a message of more than KeepBuffer. The next buffer has room for any message.
	partial = 1 << 20
	// readAtOnce is the most bytes that one read may return. With more, what follows a large message would need a buffer of
	// the same size.
	readAtOnce = 256 << 10
	// maxEmptyReads is how often in a row a source may return no bytes and no error.
	maxEmptyReads = 100
)

// Memory lends buffers for large messages. A Buffer takes one of at most 1 MiB. If that is too small, it takes one with room for
// any message, and then puts the first one back.
type Memory interface {
	Take(n int) ([]byte, error) // a buffer with room for n bytes
	Put(b []byte)
	Forget(b []byte) // in the place of Put, when a reader may still use it
}

// Buffer has what was read of Source and is still needed: Bytes[Start:End]. It is not safe for concurrent use.
type Buffer struct {
	Source io.Reader
	Max    int    // bytes of a message
	Memory Memory // lends large buffers; nil to allocate them

	Bytes      []byte
	Start, End int
	Err        error // of the last read; the bytes before it are to be used first
	NoRoom     error // why Fill could not read; nil if it could
}

// Fill reads once more, behind what is already there. It returns by how many bytes it has moved that to the beginning of Bytes.
func (b *Buffer) Fill() (moved int) {
	pending, free := b.End-b.Start, len(b.Bytes)-b.End
	switch {
	case len(b.Bytes) > KeepBuffer && pending <= KeepBuffer/2:
		// The message that needed it was returned. The source may now be quiet for hours.
		moved = b.move(make([]byte, KeepBuffer))
	case pending == 0 && len(b.Bytes) > 0:
		moved = b.move(b.Bytes)
	case free > 0 && (free >= len(b.Bytes)/4 || len(b.Bytes) >= b.full()):
	case pending > 0 && (pending <= len(b.Bytes)/2 || len(b.Bytes) >= b.full()):
		moved = b.move(b.Bytes)
	default:
		to, err := b.take(b.more())
		if err != nil {
			b.NoRoom = err
			return 0
		}
		moved = b.move(to)
	}
	for range maxEmptyReads {
		n, err := b.Source.Read(b.Bytes[b.End:min(len(b.Bytes), b.End+readAtOnce)])
		b.End += n
		b.Err = err
		if n > 0 || err != nil {
			return moved
		}
	}
	b.Err = io.ErrNoProgress
	return moved
}

func (b *Buffer) move(to []byte) (moved int) {
	moved = b.Start
	b.Start, b.End = 0, copy(to, b.Bytes[b.Start:b.End])
	if len(b.Bytes) > 0 && &to[0] != &b.Bytes[0] {
		b.putBack()
	}
	b.Bytes = to
	return moved
}

// more returns the size of the next buffer. Up to KeepBuffer, into which most messages fit, it is four times the size before,
// because all that is there is copied each time. Above that a buffer grows in two steps only: many buffers that grew in small
// steps could wait for each other's memory.
func (b *Buffer) more() int {
	switch n := len(b.Bytes); {
	case n < KeepBuffer:
		return max(firstBuffer, 4*n)
	case n < partial && partial < b.full():
		return partial
	}
	return b.full()
}

// full returns the size of a buffer with room for any message.
func (b *Buffer) full() int { return b.Max + KeepBuffer }

// take returns a buffer of at least n bytes.
func (b *Buffer) take(n int) ([]byte, error) {
	if b.Memory == nil || n <= KeepBuffer {
		return make([]byte, n), nil
	}
	to, err := b.Memory.Take(n)
	return to[:cap(to)], err
}

// lent reports whether Bytes are lent by Memory.
func (b *Buffer) lent() bool { return b.Memory != nil && len(b.Bytes) > KeepBuffer }

func (b *Buffer) putBack() {
	if b.lent() {
		b.Memory.Put(b.Bytes)
	}
}

// Drop releases Bytes.
func (b *Buffer) Drop() {
	b.putBack()
	b.Bytes, b.Start, b.End = nil, 0, 0
}

// Forget leaves Bytes to a goroutine that may still read them.
func (b *Buffer) Forget() {
	if b.lent() {
		b.Memory.Forget(b.Bytes)
	}
	b.Bytes, b.Start, b.End = nil, 0, 0
}
