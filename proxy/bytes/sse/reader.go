package sse

import (
	"bytes"
	"errors"
	"io"
	"time"

	"github.com/dragoman-proxy/dragoman/proxy/bytes/inbuf"
)

// keepBuffer is the largest buffer kept while nothing needs it.
const keepBuffer = inbuf.KeepBuffer

// maxRetry is the longest reconnection time; longer ones are cut to it.
const maxRetry = 24 * time.Hour

// maxSkipped times the limit is the largest event that is skipped. A larger one ends
// the stream.
const maxSkipped = 16

const byteOrderMark = "\xef\xbb\xbf"

// Reader reads the events of a stream. It is not safe for concurrent use.
type Reader struct {
	// in holds what was read. Its Err is returned by Next after the events that were read before it. The event under way
	// begins at in.Start and its next line at pos. lf and cr are the positions of the next "\n" and "\r", or the end of
	// the bytes that are known to hold none, so that no byte is searched twice.
	in          inbuf.Buffer
	pos, lf, cr int
	begun       bool // the first line was returned
	open        bool // the event under way has a known field
	skipLF      bool // the last line ended in "\r"; a "\n" that follows belongs to that line end

	id, name []byte // copies, because data lines are moved over other lines

	halted bool // an interrupted Next has left its event in event and data
	event  Event
	data   span
}

// ErrInterrupted is the error of a source that was told to stop waiting. It is not final: the next call of Next
// continues where the last one has stopped.
var ErrInterrupted = errors.New("the wait for data was interrupted")

// Memory lends buffers for large events.
type Memory = inbuf.Memory

// NewReader returns a Reader of the events of src. An event may have max bytes as it
// comes over the wire: field names and comments within it count, the line end of its
// last field and the blank line do not. max must be positive.
func NewReader(src io.Reader, max int) *Reader { return NewReaderIn(nil, src, max) }

// NewReaderIn returns a Reader as NewReader does, which takes the buffers for large
// events from mem. If mem is nil, the Reader allocates them. Otherwise the caller must
// call Reset or Abandon in the end.
func NewReaderIn(mem Memory, src io.Reader, max int) *Reader {
	return &Reader{in: inbuf.Buffer{Memory: mem, Source: src, Max: max}}
}

// Reset makes r read another stream, with the same limit and memory. It releases a
// buffer of more than 64 KiB, and uses smaller ones again.
func (r *Reader) Reset(src io.Reader) { r.ResetIn(r.in.Memory, src) }

// ResetIn does what Reset does, and sets other memory.
func (r *Reader) ResetIn(mem Memory, src io.Reader) {
	fresh := Reader{in: inbuf.Buffer{Memory: mem, Source: src, Max: r.in.Max}}
	if len(r.in.Bytes) <= keepBuffer {
		fresh.in.Bytes = r.in.Bytes
	} else {
		r.in.Drop()
	}
	fresh.id, fresh.name = r.id, r.name
	*r = fresh
}

// Rest releases the buffer if nothing in it is still needed, and reports whether it did. The last event is then no longer
// valid. The next call of Next takes a new buffer.
func (r *Reader) Rest() bool {
	if r.pos < r.in.End || r.halted && r.open {
		return false
	}
	r.in.Drop()
	r.pos, r.lf, r.cr = 0, 0, 0
	return true
}

// Abandon makes r unusable. The last event stays valid for a goroutine that may still
// read it.
func (r *Reader) Abandon() {
	r.in.Forget()
	*r = Reader{in: inbuf.Buffer{Err: io.ErrClosedPipe}}
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
		case r.in.NoRoom != nil:
			r.in.NoRoom = nil
			return Event{}, r.skip(data, err)
		case err == ErrInterrupted:
			r.in.Err, r.halted, r.event, r.data = nil, true, e, data
			return Event{}, err
		case err != nil:
			return Event{}, err
		case from < to:
			name, value := cutField(r.in.Bytes[from:to])
			r.field(&e, &data, name, value, to-len(value))
			continue
		}
		if data != noSpan {
			free := r.in.Start + data.to
			if r.pos == r.in.End {
				free = len(r.in.Bytes) // nothing else was read yet
			}
			e.Data = r.in.Bytes[r.in.Start+data.from : r.in.Start+data.to : free]
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
			*data = span{at - r.in.Start, at - r.in.Start + len(value)}
			break
		}
		// Move the line up behind the one before. There is room for the
		// newline: a line end and "data" stand between them.
		joined := r.in.Bytes[r.in.Start+data.to : at+len(value)]
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
		if r.skipLF && r.pos < r.in.End {
			r.skipLF = false
			if r.in.Bytes[r.pos] == '\n' {
				r.pos++
			}
		}
		if !r.open {
			r.in.Start = r.pos // nothing before it is needed
		}
		r.lf, r.cr = r.find('\n', r.lf), r.find('\r', r.cr)
		to = min(r.lf, r.cr)
		if to > r.pos && to-r.in.Start > r.in.Max {
			return 0, 0, errTooLarge
		}
		if to < r.in.End {
			from = r.pos
			if !r.begun && bytes.HasPrefix(r.in.Bytes[from:to], []byte(byteOrderMark)) {
				from += len(byteOrderMark)
			}
			r.begun = true
			r.skipLF = r.in.Bytes[to] == '\r'
			r.pos = to + 1
			return from, to, nil
		}
		if r.in.Err != nil {
			if r.in.Err == io.EOF && (r.open || r.pos < r.in.End) {
				r.in.Err = io.ErrUnexpectedEOF
			}
			return 0, 0, r.in.Err
		}
		if r.fill(); r.in.NoRoom != nil {
			return 0, 0, r.in.NoRoom
		}
	}
}

// find returns the position of the next c, or r.in.End. It skips the bytes before known,
// which is its last result.
func (r *Reader) find(c byte, known int) int {
	known = max(known, r.pos)
	if i := bytes.IndexByte(r.in.Bytes[known:r.in.End], c); i >= 0 {
		return known + i
	}
	return r.in.End
}

// fill reads once more from the source, behind what is already there. If there is no memory, it sets in.NoRoom.
func (r *Reader) fill() {
	moved := r.in.Fill()
	r.pos, r.lf, r.cr = r.pos-moved, r.lf-moved, r.cr-moved
}

// skip discards the event under way, up to the blank line behind it. data is the part
// of its data that was read. noRoom says why there was no memory for the event; it is
// nil if the event is too large.
func (r *Reader) skip(data span, noRoom error) error {
	e := &TooLargeError{Limit: r.in.Max, Skipped: true, NoRoom: noRoom}
	if data != noSpan {
		_, _ = e.Message.Write(r.in.Bytes[r.in.Start+data.from : r.in.Start+data.to])
	}
	var l skipped
	length := r.pos - r.in.Start
	for {
		for i, c := range r.in.Bytes[r.pos:r.in.End] {
			if l.next(c, e) {
				r.pos += i + 1
				r.in.Start, r.skipLF, r.open = r.pos, c == '\r', false
				return e
			}
		}
		length += r.in.End - r.pos
		r.in.Start, r.pos, r.open = r.in.End, r.in.End, false
		if r.in.Err == nil && length > maxSkipped*r.in.Max {
			e.Skipped = false
			r.in.Err = e
		}
		if r.in.Err != nil {
			if r.in.Err == io.EOF {
				r.in.Err = io.ErrUnexpectedEOF
			}
			r.in.Drop()
			r.pos, r.lf, r.cr = 0, 0, 0
			return e
		}
		if r.fill(); r.in.Err == ErrInterrupted {
			r.in.Err = nil // the event ends soon
		}
	}
}
