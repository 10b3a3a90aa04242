// Package unpack decodes the content of HTTP responses that are compressed although identity was asked for.
//
// The decoders cannot go on after an error of their source, and a reader of events is told to stop waiting now and then. So they
// run in a coroutine, which is left whenever they need more input: the source is read outside of it.
package unpack

import (
	"errors"
	"fmt"
	"io"
	"iter"
	"math"
)

// Error is the error for content that cannot be decoded.
type Error struct {
	Coding Coding
	Err    error
}

func (e *Error) Error() string {
	return fmt.Sprintf("the %s content of the response: %v", e.Coding, e.Err)
}
func (e *Error) Unwrap() error { return e.Err }

// Memory counts what a decoder takes.
type Memory interface {
	// Hold is called before n more bytes are taken. Its error ends the decoding.
	Hold(n int) error
	// Drop is called when n bytes that were taken are given back.
	Drop(n int)
}

// Reader decodes content as it comes. It is not safe for concurrent use.
type Reader struct {
	src    io.Reader
	memory Memory
	decoder

	buf   []byte // for in
	out   []byte // decoded, and not yet read
	held  int    // bytes of memory
	given int64  // bytes that more may come out of the input so far
	waits bool   // the decoder needs more input
	err   error  // the end
	next  func() ([]byte, bool)
	stop  func()
}

// maxRatio is how many bytes may come out of one, beyond the first freely: deflate has no more than 1,032, and the others no limit.
// It bounds the processor time that a few bytes can cost in a stream without end.
const (
	maxRatio = 1100
	freely   = 64 << 20
)

// inputSize is how much of the source is read at once.
const inputSize = 4 << 10

// NewReader returns a Reader of src, whose content is in the coding c, which must not be Identity. After the last read, the
// caller calls Close.
func NewReader(src io.Reader, c Coding, memory Memory) *Reader {
	r := &Reader{src: src, memory: memory, waits: true, given: freely}
	r.decoder = decoder{coding: c, hold: r.take}
	return r
}

// Read returns what has come, as far as it can be decoded, and reads from the source only if there is nothing. An error of the
// source is returned as it is, and reading can go on. Any other error but io.EOF is an [*Error], or that of Hold. At the end,
// the source was read to its end.
func (r *Reader) Read(p []byte) (int, error) {
	for {
		if len(r.out) > 0 {
			n := copy(p, r.out)
			r.out = r.out[n:]
			return n, nil
		}
		if r.err != nil {
			return 0, r.err
		}
		if r.waits {
			if err := r.more(); err != nil {
				return 0, err
			}
			continue
		}
		piece, going := r.next()
		switch {
		case !going:
			r.err = r.end()
			r.Close()
		case piece == nil:
			r.waits = true
		default:
			r.out = piece
			if r.given -= int64(len(piece)); r.given < 0 {
				r.Close()
				r.err = &Error{r.coding, errRatio}
			}
		}
	}
}

// more reads from the source once.
func (r *Reader) more() error {
	if r.buf == nil {
		r.buf = make([]byte, inputSize)
	}
	n, err := r.src.Read(r.buf)
	switch {
	case n > 0:
		r.in.bytes = r.buf[:n]
		r.given = min(r.given+maxRatio*int64(n), math.MaxInt64/2)
	case err == nil:
		return nil
	case err != io.EOF:
		return err
	case r.next == nil:
		r.err = io.EOF // content of no bytes is not compressed
		return nil
	}
	r.in.ended = n == 0
	r.waits = false
	if r.next == nil {
		r.next, r.stop = iter.Pull(r.run)
	}
	return nil
}

// end returns the error with which the decoder has ended.
func (r *Reader) end() error {
	switch {
	case r.fault == nil:
		return io.EOF
	case r.in.short:
		return io.ErrUnexpectedEOF
	}
	if refused, ok := errors.AsType[*holdError](r.fault); ok {
		return refused.error
	}
	return &Error{r.coding, r.fault}
}

// Close gives back the memory. It may be called more than once.
func (r *Reader) Close() {
	if r.stop != nil {
		r.stop()
	}
	if r.held > 0 {
		r.memory.Drop(r.held)
	}
	r.next, r.stop, r.buf, r.out, r.held, r.waits = nil, nil, nil, nil, 0, false
	if r.err == nil {
		r.err = io.ErrClosedPipe
	}
}

var errRatio = errors.New("more comes out than messages have")

// holdError is an error of Memory.
type holdError struct{ error }

func (e *holdError) Unwrap() error { return e.error }

// take takes memory, so that n bytes are held.
func (r *Reader) take(n int) error {
	if n <= r.held {
		return nil
	}
	if err := r.memory.Hold(n - r.held); err != nil {
		return &holdError{err}
	}
	r.held = n
	return nil
}
