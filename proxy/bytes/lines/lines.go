// Package lines frames messages the way MCP's stdio transport does: one JSON
// text per line, no raw newline inside.
//
// See https://modelcontextprotocol.io/specification/2025-11-25/basic/transports#stdio.
package lines

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"sync"

	"github.com/dragoman-proxy/dragoman/proxy/bytes/envelope"
	"github.com/dragoman-proxy/dragoman/proxy/bytes/inbuf"
)

// keepBuffer is the largest buffer kept while nothing needs it.
const keepBuffer = inbuf.KeepBuffer

// byteOrderMark is a mark that some shells write before the first line of a pipe.
const byteOrderMark = "\xef\xbb\xbf"

// space is the white space that JSON allows around a value.
const space = " \t\r\n"

// TooLongError is returned for a line that is longer than the reader accepts, or for which there was
// no memory.
type TooLongError struct {
	Limit  int   // longest line accepted, in bytes
	Length int   // length of this line in bytes, without its line end
	NoRoom error // why there was no memory for it; nil if it is longer than Limit

	Message envelope.Finder // what was found in the line, such as its id
}

func (e *TooLongError) Error() string {
	if e.NoRoom != nil {
		return e.NoRoom.Error()
	}
	return fmt.Sprintf("line of %d bytes is longer than the limit of %d", e.Length, e.Limit)
}

// Reader splits a byte stream into lines. It is not safe for concurrent use.
type Reader struct {
	in inbuf.Buffer
	// searched is the number of bytes behind in.Start that are known to hold no newline.
	searched int
	begun    bool // the first line was returned
}

// Memory lends buffers for large lines.
type Memory = inbuf.Memory

// NewReader returns a Reader of the lines of src, each of at most max bytes
// without its line end. max must be positive.
func NewReader(src io.Reader, max int) *Reader {
	return NewReaderIn(nil, src, max)
}

// NewReaderIn returns a Reader as NewReader does. It holds each large line in a buffer of memory
// until the next line is read.
func NewReaderIn(memory Memory, src io.Reader, max int) *Reader {
	return &Reader{in: inbuf.Buffer{Source: src, Max: max, Memory: memory}}
}

// Forget stops counting the line that Next returned last, and leaves its memory to the caller, which
// may still read it. Next must not be called afterwards.
func (r *Reader) Forget() { r.in.Forget() }

// Next returns the next line that is not blank, without its "\n" or "\r\n" and
// without the white space around the text. It blocks until there is one. The line is
// valid until the next call and may be changed in place until then, up to its capacity.
//
// A line over the limit, or one that there was no memory for, is skipped to its end and
// returns a *TooLongError, after which Next goes on with the line behind it. A last line without a
// newline is a line too. At the end of the source the error is io.EOF; any
// other error is the source's own and final.
func (r *Reader) Next() ([]byte, error) {
	for {
		line, err := r.next()
		if err != nil {
			return nil, err
		}
		if line = bytes.Trim(line, space); len(line) != 0 {
			return line, nil
		}
	}
}

func (r *Reader) next() ([]byte, error) {
	for {
		if i := bytes.IndexByte(r.in.Bytes[r.in.Start+r.searched:r.in.End], '\n'); i >= 0 {
			end, free := r.in.Start+r.searched+i, r.in.Start+r.searched+i
			if end+1 == r.in.End {
				free = len(r.in.Bytes) // nothing else was read yet
			}
			line := r.in.Bytes[r.in.Start:end:free]
			r.in.Start = end + 1
			r.searched = 0
			return r.trim(line)
		}
		r.searched = r.in.End - r.in.Start
		// One byte more than the limit may yet turn out to be a "\r", and
		// three more a byte order mark.
		if r.searched > r.in.Max+1+len(byteOrderMark) {
			return r.skip(nil)
		}
		if r.in.Err != nil {
			return r.last()
		}
		if r.in.Fill(); r.in.NoRoom != nil {
			return r.skip(r.in.NoRoom)
		}
	}
}

// trim removes from a whole line what does not belong to it: a byte order mark and a "\r".
func (r *Reader) trim(line []byte) ([]byte, error) {
	if !r.begun {
		r.begun = true
		line = bytes.TrimPrefix(line, []byte(byteOrderMark))
	}
	line = bytes.TrimSuffix(line, []byte{'\r'})
	if len(line) > r.in.Max {
		e := &TooLongError{Limit: r.in.Max, Length: len(line)}
		_, _ = e.Message.Write(line)
		return nil, e
	}
	return line, nil
}

// last returns what stands behind the last newline of a source that has ended.
func (r *Reader) last() ([]byte, error) {
	line := r.in.Bytes[r.in.Start:r.in.End]
	r.in.Start, r.searched = r.in.End, 0
	if r.in.Err != io.EOF || len(line) == 0 {
		r.in.Drop()
		return nil, r.in.Err
	}
	return r.trim(line)
}

// skip discards a line that is already too long, or that there was no memory for, up to and
// including its newline.
func (r *Reader) skip(noRoom error) ([]byte, error) {
	e := &TooLongError{Limit: r.in.Max, NoRoom: noRoom}
	r.in.NoRoom = nil
	endsInCR := false
	for {
		chunk := r.in.Bytes[r.in.Start:r.in.End]
		i := bytes.IndexByte(chunk, '\n')
		if i >= 0 {
			chunk = chunk[:i]
		}
		if !r.begun {
			r.begun = true
			chunk = bytes.TrimPrefix(chunk, []byte(byteOrderMark))
		}
		e.Length += len(chunk)
		_, _ = e.Message.Write(chunk)
		if len(chunk) > 0 {
			endsInCR = chunk[len(chunk)-1] == '\r'
		}
		if i >= 0 {
			r.in.Start += i + 1
			break
		}
		r.in.Start = r.in.End
		if r.in.Err != nil {
			break // Next will report it, after this line
		}
		r.in.Fill()
	}
	r.searched = 0
	if endsInCR {
		e.Length--
	}
	return nil, e
}

// Append appends msg as one line to dst. It removes the white space around msg, turns raw newlines
// and carriage returns into spaces, because in valid JSON they can only stand between tokens, and
// adds a newline. It leaves msg as it is.
func Append(dst, msg []byte) []byte {
	start := len(dst)
	dst = append(dst, bytes.Trim(msg, space)...)
	for _, c := range []byte{'\n', '\r'} {
		rest := dst[start:]
		for {
			i := bytes.IndexByte(rest, c)
			if i < 0 {
				break
			}
			rest[i] = ' '
			rest = rest[i+1:]
		}
	}
	return append(dst, '\n')
}

// Single reports whether msg can be written as it is, with a newline behind it.
func Single(msg []byte) bool {
	return bytes.IndexByte(msg, '\n') < 0 && bytes.IndexByte(msg, '\r') < 0
}

// ErrClosed is returned by a Writer that was closed.
var ErrClosed = errors.New("lines: writer is closed")

// Writer writes messages as lines. It is safe for concurrent use.
type Writer struct {
	mu     sync.Mutex // guards busy and closed; not held while something is written, which takes as long as the reader likes
	free   sync.Cond
	busy   bool // one of the callers has what is below for itself
	closed bool

	dst io.Writer
	buf []byte
	err error
}

// NewWriter returns a Writer to dst.
func NewWriter(dst io.Writer) *Writer {
	w := &Writer{dst: dst}
	w.free.L = &w.mu
	return w
}

// enter waits until no other caller writes. It returns false if w is closed.
func (w *Writer) enter() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	for w.busy && !w.closed {
		w.free.Wait()
	}
	if w.closed {
		return false
	}
	w.busy = true
	return true
}

// leave lets the next caller write.
func (w *Writer) leave() {
	w.mu.Lock()
	w.busy = false
	w.mu.Unlock()
	w.free.Signal()
}

// WriteMessage writes msg as one line, in a single call of the destination's
// Write unless it is large. msg is not kept. After a failed write the line may be there in part, so
// that every later call returns the same error without writing.
func (w *Writer) WriteMessage(msg []byte) error {
	if !w.enter() {
		return ErrClosed
	}
	defer w.leave()
	if w.err != nil {
		return w.err
	}
	if msg = bytes.Trim(msg, space); len(msg) > keepBuffer && Single(msg) {
		if w.write(msg); w.err == nil { // without a copy
			w.write([]byte{'\n'})
		}
		return w.err
	}
	w.buf = Append(w.buf[:0], msg)
	w.write(w.buf)
	if cap(w.buf) > keepBuffer {
		w.buf = nil
	}
	return w.err
}

func (w *Writer) write(b []byte) {
	n, err := w.dst.Write(b)
	if err == nil && n < len(b) {
		err = io.ErrShortWrite
	}
	w.err = err
}

// Close makes every later WriteMessage, and each that waits for another, return ErrClosed. It neither waits for the one that is under
// way, which it reports, nor closes the destination.
func (w *Writer) Close() (writes bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.closed = true
	w.free.Broadcast()
	return w.busy
}
