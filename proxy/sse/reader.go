package sse

import (
	"bytes"
	"errors"
	"io"
	"time"
)

const (
	firstBuffer = 4 << 10
	// keepBuffer is the largest buffer kept while nothing needs it.
	keepBuffer = 64 << 10
	// partial is the size of the first buffer for an event of more than keepBuffer. The
	// next buffer has room for any event.
	partial = 1 << 20
	// readAtOnce is the most bytes that one read may return. With more, what follows a
	// large event would need a buffer of the same size.
	readAtOnce = 256 << 10
	// maxEmptyReads is how often in a row a source may return no bytes and no error.
	maxEmptyReads = 100
	// maxRetry is the longest reconnection time; longer ones are cut to it.
	maxRetry = 24 * time.Hour
)

// maxSkipped times the limit is the largest event that is skipped. A larger one ends
// the stream.
const maxSkipped = 16

const byteOrderMark = "\xef\xbb\xbf"

// Reader reads the events of a stream. It is not safe for concurrent use.
type Reader struct {
	src io.Reader
	max int
	mem Memory
	err error // error of the source; Next first returns the events that were read before it

	// buf[:end] holds what was read. The event under way begins at start and its next
	// line at pos. lf and cr are the positions of the next "\n" and "\r", or the end of
	// the bytes that are known to hold none, so that no byte is searched twice.
	buf             []byte
	start, pos, end int
	lf, cr          int
	begun           bool  // the first line was returned
	open            bool  // the event under way has a known field
	noRoom          error // why fill could not read; nil if it could
	skipLF          bool  // the last line ended in "\r"; a "\n" that follows belongs to that line end

	id, name []byte // copies, because data lines are moved over other lines

	halted bool // an interrupted Next has left its event in event and data
	event  Event
	data   span
}

// ErrInterrupted is the error of a source that was told to stop waiting. It is not final: the next call of Next
// continues where the last one has stopped.
var ErrInterrupted = errors.New("the wait for data was interrupted")

// Memory lends buffers for large events. A Reader takes one of at most 1 MiB. If that
// is too small, it takes one with room for any event, and then puts the first one back.
type Memory interface {
	Take(n int) ([]byte, error) // a buffer with room for n bytes
	Put(b []byte)
	Forget(b []byte) // in the place of Put, when a reader may still use it
}

// NewReader returns a Reader of the events of src. An event may have max bytes as it
// comes over the wire: field names and comments within it count, the line end of its
// last field and the blank line do not. max must be positive.
func NewReader(src io.Reader, max int) *Reader { return NewReaderIn(nil, src, max) }

// NewReaderIn returns a Reader as NewReader does, which takes the buffers for large
// events from mem. If mem is nil, the Reader allocates them. Otherwise the caller must
// call Reset or Abandon in the end.
func NewReaderIn(mem Memory, src io.Reader, max int) *Reader {
	return &Reader{mem: mem, src: src, max: max}
}

// Reset makes r read another stream, with the same limit and memory. It releases a
// buffer of more than 64 KiB, and uses smaller ones again.
func (r *Reader) Reset(src io.Reader) { r.ResetIn(r.mem, src) }

// ResetIn does what Reset does, and sets other memory.
func (r *Reader) ResetIn(mem Memory, src io.Reader) {
	fresh := Reader{mem: mem, src: src, max: r.max}
	if len(r.buf) <= keepBuffer {
		fresh.buf = r.buf
	} else {
		r.drop()
	}
	fresh.id, fresh.name = r.id, r.name
	*r = fresh
}

// Abandon makes r unusable. The last event stays valid for a goroutine that may still
// read it.
func (r *Reader) Abandon() {
	if r.mem != nil && len(r.buf) > keepBuffer {
		r.mem.Forget(r.buf)
	}
	*r = Reader{err: io.ErrClosedPipe}
}

// Next returns the next event that has an id, data or a reconnection time of more than
// 0, and blocks until there is one. (A browser ignores an event without data, but MCP's
// priming events may have none.) Data is empty but not nil if the event had an empty
// data field. The event is valid until the next call and may be changed in place until
// then, Data up to its capacity.
//
// The error is io.EOF if the source ended between two events, io.ErrUnexpectedEOF if it
// ended within one, whose beginning is discarded, a *TooLargeError for an event that is
// over the limit or that there was no memory for, and otherwise the source's own. All
// errors are final, except the one for an event that was skipped, and ErrInterrupted.
func (r *Reader) Next() (Event, error) {
	var e Event
	data := noSpan
	if r.halted {
		e, data, r.halted = r.event, r.data, false
	} else {
		r.open = false
		if cap(r.id)+cap(r.name) > keepBuffer {
			r.id, r.name = nil, nil
		}
	}
	for {
		from, to, err := r.line()
		switch {
		case err == errTooLarge:
			return Event{}, r.skip(data, nil)
		case r.noRoom != nil:
			r.noRoom = nil
			return Event{}, r.skip(data, err)
		case err == ErrInterrupted:
			r.err, r.halted, r.event, r.data = nil, true, e, data
			return Event{}, err
		case err != nil:
			return Event{}, err
		case from < to:
			name, value := cutField(r.buf[from:to])
			r.field(&e, &data, name, value, to-len(value))
			continue
		}
		if data != noSpan {
			free := r.start + data.to
			if r.pos == r.end {
				free = len(r.buf) // nothing else was read yet
			}
			e.Data = r.buf[r.start+data.from : r.start+data.to : free]
		}
		if e.HasID || e.Data != nil || e.Retry > 0 {
			if e.HasID {
				e.ID = r.id
			}
			return e, nil
		}
		e = Event{} // the event had a name at most
		r.open = false
	}
}

// cutField splits a line at its first colon. One space behind the colon belongs to
// neither part. A comment has an empty name.
func cutField(line []byte) (name, value []byte) {
	name, value, _ = bytes.Cut(line, []byte{':'})
	if len(value) > 0 && value[0] == ' ' {
		value = value[1:]
	}
	return name, value
}

// field adds one field to e. value begins at offset at of the buffer.
func (r *Reader) field(e *Event, data *span, name, value []byte, at int) {
	switch string(name) {
	case "data":
		if *data == noSpan {
			*data = span{at - r.start, at - r.start + len(value)}
			break
		}
		// Move the line up behind the one before. There is room for the
		// newline: a line end and "data" stand between them.
		joined := r.buf[r.start+data.to : at+len(value)]
		joined[0] = '\n'
		data.to += 1 + copy(joined[1:], value)
	case "id":
		if bytes.IndexByte(value, 0) >= 0 {
			return
		}
		r.id = append(r.id[:0], value...)
		e.HasID = true
	case "event":
		r.name = append(r.name[:0], value...)
		e.Name = r.name
	case "retry":
		d, ok := milliseconds(value)
		if !ok {
			return
		}
		e.Retry = d
	default:
		return
	}
	r.open = true
}

// milliseconds parses a number of milliseconds in ASCII digits.
func milliseconds(digits []byte) (d time.Duration, ok bool) {
	for _, c := range digits {
		if c < '0' || c > '9' {
			return 0, false
		}
		d = min(10*d+time.Duration(c-'0')*time.Millisecond, maxRetry)
	}
	return d, len(digits) > 0
}

// line returns where in the buffer the next line is, without its end, which
// may be "\n", "\r" or "\r\n". It does not wait for the byte behind a "\r".
func (r *Reader) line() (from, to int, err error) {
	for {
		if r.skipLF && r.pos < r.end {
			r.skipLF = false
			if r.buf[r.pos] == '\n' {
				r.pos++
			}
		}
		if !r.open {
			r.start = r.pos // nothing before it is needed
		}
		r.lf, r.cr = r.find('\n', r.lf), r.find('\r', r.cr)
		to = min(r.lf, r.cr)
		if to > r.pos && to-r.start > r.max {
			return 0, 0, errTooLarge
		}
		if to < r.end {
			from = r.pos
			if !r.begun && bytes.HasPrefix(r.buf[from:to], []byte(byteOrderMark)) {
				from += len(byteOrderMark)
			}
			r.begun = true
			r.skipLF = r.buf[to] == '\r'
			r.pos = to + 1
			return from, to, nil
		}
		if r.err != nil {
			if r.err == io.EOF && (r.open || r.pos < r.end) {
				r.err = io.ErrUnexpectedEOF
			}
			return 0, 0, r.err
		}
		if r.fill(); r.noRoom != nil {
			return 0, 0, r.noRoom
		}
	}
}

// find returns the position of the next c, or r.end. It skips the bytes before known,
// which is its last result.
func (r *Reader) find(c byte, known int) int {
	known = max(known, r.pos)
	if i := bytes.IndexByte(r.buf[known:r.end], c); i >= 0 {
		return known + i
	}
	return r.end
}

// fill reads once more from the source, behind what is already there. If there is no
// memory, it sets noRoom.
func (r *Reader) fill() {
	pending, free := r.end-r.start, len(r.buf)-r.end
	switch {
	case len(r.buf) > keepBuffer && pending <= keepBuffer/2:
		// The event that needed it was returned. The source may now be quiet for hours.
		r.move(make([]byte, keepBuffer))
	case pending == 0 && len(r.buf) > 0:
		r.move(r.buf)
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

func (r *Reader) move(to []byte) {
	n := r.start
	r.end = copy(to, r.buf[n:r.end])
	r.start, r.pos, r.lf, r.cr = 0, r.pos-n, r.lf-n, r.cr-n
	if len(r.buf) > 0 && &to[0] != &r.buf[0] {
		r.drop()
	}
	r.buf = to
}

// more returns the size of the next buffer. Up to keepBuffer, into which most messages
// fit, it is four times the size before, because all that is there is copied each time.
// Above that a buffer grows in two steps only: many buffers that grew in small steps
// could wait for each other's memory.
func (r *Reader) more() int {
	switch n := len(r.buf); {
	case n < keepBuffer:
		return max(firstBuffer, 4*n)
	case n < partial && partial < r.full():
		return partial
	}
	return r.full()
}

// full returns the size of a buffer with room for any event.
func (r *Reader) full() int { return r.max + keepBuffer }

// take returns a buffer of at least n bytes.
func (r *Reader) take(n int) ([]byte, error) {
	if r.mem == nil || n <= keepBuffer {
		return make([]byte, n), nil
	}
	b, err := r.mem.Take(n)
	return b[:cap(b)], err
}

// drop releases the buffer.
func (r *Reader) drop() {
	if r.mem != nil && len(r.buf) > keepBuffer {
		r.mem.Put(r.buf)
	}
	r.buf = nil
}

// skip discards the event under way, up to the blank line behind it. data is the part
// of its data that was read. noRoom says why there was no memory for the event; it is
// nil if the event is too large.
func (r *Reader) skip(data span, noRoom error) error {
	e := &TooLargeError{Limit: r.max, Skipped: true, NoRoom: noRoom}
	if data != noSpan {
		_, _ = e.Message.Write(r.buf[r.start+data.from : r.start+data.to])
	}
	var l skipped
	length := r.pos - r.start
	for {
		for i, c := range r.buf[r.pos:r.end] {
			if l.next(c, e) {
				r.pos += i + 1
				r.start, r.skipLF, r.open = r.pos, c == '\r', false
				return e
			}
		}
		length += r.end - r.pos
		r.start, r.pos, r.open = r.end, r.end, false
		if r.err == nil && length > maxSkipped*r.max {
			e.Skipped = false
			r.err = e
		}
		if r.err != nil {
			if r.err == io.EOF {
				r.err = io.ErrUnexpectedEOF
			}
			r.drop()
			r.start, r.pos, r.end, r.lf, r.cr = 0, 0, 0, 0, 0
			return e
		}
		if r.fill(); r.err == ErrInterrupted {
			r.err = nil // the event ends soon
		}
	}
}
