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

	"github.com/dragoman-proxy/dragoman/proxy/envelope"
)

const (
	firstBuffer = 4 << 10
	// keepBuffer is the largest buffer kept while nothing needs it.
	keepBuffer = 64 << 10
	// partial is the size of the first buffer for a line of more than keepBuffer. The next buffer
	// has room for any line.
	partial = 1 << 20
	// readAtOnce is the most bytes that one read may return. With more, what follows a large line
	// would need a buffer of the same size.
	readAtOnce = 256 << 10
	// maxEmptyReads is how often in a row a source may return no bytes and no error.
	maxEmptyReads = 100
)

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
	src io.Reader
	max int
	buf []byte // storage; buf[pos:end] is read and not yet delivered
	pos int
	end int
	// searched is the number of bytes behind pos that are known to hold no newline.
	searched int
	begun    bool // the first line was returned
	err      error

	memory Memory // lends large buffers; nil to allocate them
	lent   bool   // buf is lent by memory
	noRoom error  // why fill could not read; nil if it could
}

// Memory lends buffers for large lines. A Reader takes one of at most 1 MiB. If that is too small,
// it takes one with room for any line, and then puts the first one back.
type Memory interface {
	Take(n int) ([]byte, error) // a buffer with room for n bytes
	Put(b []byte)
	Forget(b []byte) // in the place of Put, when a reader may still use it
}

// NewReader returns a Reader of the lines of src, each of at most max bytes
// without its line end. max must be positive.
func NewReader(src io.Reader, max int) *Reader {
	return &Reader{src: src, max: max}
}

// NewReaderIn returns a Reader as NewReader does. It holds each large line in a buffer of memory
// until the next line is read.
func NewReaderIn(memory Memory, src io.Reader, max int) *Reader {
	return &Reader{src: src, max: max, memory: memory}
}

// Forget stops counting the line that Next returned last, and leaves its memory to the caller, which
// may still read it. Next must not be called afterwards.
func (r *Reader) Forget() {
	if r.lent {
		r.memory.Forget(r.buf)
		r.lent = false
	}
}

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
		if i := bytes.IndexByte(r.buf[r.pos+r.searched:r.end], '\n'); i >= 0 {
			end, free := r.pos+r.searched+i, r.pos+r.searched+i
			if end+1 == r.end {
				free = len(r.buf) // nothing else was read yet
			}
			line := r.buf[r.pos:end:free]
			r.pos = end + 1
			r.searched = 0
			return r.trim(line)
		}
		r.searched = r.end - r.pos
		// One byte more than the limit may yet turn out to be a "\r", and
		// three more a byte order mark.
		if r.searched > r.max+1+len(byteOrderMark) {
			return r.skip(nil)
		}
		if r.err != nil {
			return r.last()
		}
		if r.fill(); r.noRoom != nil {
			return r.skip(r.noRoom)
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
	if len(line) > r.max {
		e := &TooLongError{Limit: r.max, Length: len(line)}
		_, _ = e.Message.Write(line)
		return nil, e
	}
	return line, nil
}

// last returns what stands behind the last newline of a source that has ended.
func (r *Reader) last() ([]byte, error) {
	line := r.buf[r.pos:r.end]
	r.pos, r.searched = r.end, 0
	if r.err != io.EOF || len(line) == 0 {
		r.giveBack()
		r.buf, r.pos, r.end = nil, 0, 0
		return nil, r.err
	}
	return r.trim(line)
}

// skip discards a line that is already too long, or that there was no memory for, up to and
// including its newline.
func (r *Reader) skip(noRoom error) ([]byte, error) {
	e := &TooLongError{Limit: r.max, NoRoom: noRoom}
	r.noRoom = nil
	endsInCR := false
	for {
		chunk := r.buf[r.pos:r.end]
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
			r.pos += i + 1
			break
		}
		r.pos = r.end
		if r.err != nil {
			break // Next will report it, after this line
		}
		r.fill()
	}
	r.searched = 0
	if endsInCR {
		e.Length--
	}
	return nil, e
}

// fill reads once more from the source, behind what is already there. It keeps the error of the read
// in r.err, because the bytes before it are returned first. If there is no memory, it sets r.noRoom.
func (r *Reader) fill() {
	pending, free := r.end-r.pos, len(r.buf)-r.end
	switch {
	case len(r.buf) > keepBuffer && pending <= keepBuffer/2:
		// The line that needed it was returned. The source may now be quiet for hours.
		r.move(make([]byte, keepBuffer))
	case pending == 0 && len(r.buf) > 0:
		r.pos, r.end = 0, 0
	case free > 0 && (free >= len(r.buf)/4 || len(r.buf) >= r.full()):
	case pending > 0 && (pending <= len(r.buf)/2 || len(r.buf) >= r.full()):
		r.move(r.buf)
	default:
		to, err := r.take(r.more())
		if err != nil {
			r.noRoom = err
			return
		}
		r.move(to)
	}
	for range maxEmptyReads {
		n, err := r.src.Read(r.buf[r.end:min(len(r.buf), r.end+readAtOnce)])
		r.end += n
		r.err = err
		if n > 0 || err != nil {
			return
		}
	}
	r.err = io.ErrNoProgress
}

// more returns the size of the next buffer. Above keepBuffer a buffer grows in two steps only: many
// buffers that grew in small steps could wait for each other's memory.
func (r *Reader) more() int {
	switch n := len(r.buf); {
	case n < keepBuffer:
		return max(firstBuffer, 2*n)
	case n < partial && partial < r.full():
		return partial
	}
	return r.full()
}

// full returns the size of a buffer with room for any line.
func (r *Reader) full() int { return r.max + keepBuffer }

// take returns a buffer of at least n bytes.
func (r *Reader) take(n int) ([]byte, error) {
	if r.memory == nil || n <= keepBuffer {
		return make([]byte, n), nil
	}
	b, err := r.memory.Take(n)
	return b[:cap(b)], err
}

func (r *Reader) move(to []byte) {
	r.end = copy(to, r.buf[r.pos:r.end])
	r.pos = 0
	if len(r.buf) > 0 && &to[0] == &r.buf[0] {
		return
	}
	r.giveBack()
	r.buf, r.lent = to, r.memory != nil && len(to) > keepBuffer
}

// giveBack puts back a buffer of memory, which no reader uses any more.
func (r *Reader) giveBack() {
	if r.lent {
		r.memory.Put(r.buf)
		r.lent = false
	}
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
	mu  sync.Mutex
	dst io.Writer
	buf []byte
	err error
}

// NewWriter returns a Writer to dst.
func NewWriter(dst io.Writer) *Writer {
	return &Writer{dst: dst}
}

// WriteMessage writes msg as one line, in a single call of the destination's
// Write unless it is large. msg is not kept. After a failed write the line may be there in part, so
// that every later call returns the same error without writing.
func (w *Writer) WriteMessage(msg []byte) error {
	w.mu.Lock()
	defer w.mu.Unlock()
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

// Close makes every later WriteMessage return ErrClosed. It waits for the one
// that is under way, and does not close the destination.
func (w *Writer) Close() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.err == nil {
		w.err = ErrClosed
	}
}
