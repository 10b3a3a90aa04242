package upstream

import (
	"bufio"
	"bytes"
	"errors"
	"io"
)

// framing says how the end of a body is found.
type framing uint8

const (
	byLength framing = iota
	byChunks
	byClose
)

// maxExcess is how many bytes of chunk extensions, trailers and leading zeros a body
// may hold. No reasonable server sends as many.
const maxExcess = 16 << 10

var errChunk = errors.New("malformed chunked body")

// body reads the content of one response. After an error of its source, reading can go
// on if there is more: no byte is lost.
type body struct {
	src     *bufio.Reader
	framing framing
	left    int64 // of the content, or of the chunk under way
	excess  int
	inChunk bool // the size line of a chunk was read, and the line end behind the chunk was not
	inTail  bool // the last chunk was read, and the trailers were not
	ended   bool // the response was read up to its last byte
}

// newBody returns the body of a response with this Content-Length, which is -1 for
// chunks and -2 if the end of the connection is the end of the body.
func newBody(src *bufio.Reader, length int) body {
	switch length {
	case -1:
		return body{src: src, framing: byChunks}
	case -2:
		return body{src: src, framing: byClose}
	}
	return body{src: src, left: int64(length), ended: length == 0}
}

// Read returns io.EOF at the end of the body, and io.ErrUnexpectedEOF if the source
// ended before. It does not wait for more than one byte.
func (b *body) Read(p []byte) (int, error) {
	for {
		if b.ended {
			return 0, io.EOF
		}
		switch {
		case b.framing == byClose:
			n, err := b.src.Read(p)
			b.ended = n == 0 && err == io.EOF
			return n, err
		case b.left > 0:
			n, err := b.src.Read(p[:min(int64(len(p)), b.left)])
			b.left -= int64(n)
			b.ended = b.left == 0 && b.framing == byLength
			return n, unexpected(err)
		}
		if err := b.nextChunk(); err != nil {
			return 0, unexpected(err)
		}
	}
}

// nextChunk reads one line between two chunks.
func (b *body) nextChunk() error {
	line, err := b.line()
	if err != nil {
		return err
	}
	switch {
	case b.inTail:
		b.excess += len(line)
		b.ended = len(line) == 0
	case b.inChunk:
		if len(line) != 0 {
			return errChunk
		}
		b.inChunk = false
	default:
		size, extra, ok := chunkSize(line)
		if !ok {
			return errChunk
		}
		b.left, b.inChunk, b.inTail = size, size > 0, size == 0
		b.excess += extra
	}
	if b.excess > maxExcess {
		return errChunk
	}
	return nil
}

// chunkSize parses the hexadecimal size of a chunk, and counts the other bytes of the
// line.
func chunkSize(line []byte) (size int64, extra int, ok bool) {
	digits := 0
	for _, c := range line {
		switch {
		case c >= '0' && c <= '9':
			c -= '0'
		case c|0x20 >= 'a' && c|0x20 <= 'f':
			c = c | 0x20 - 'a' + 10
		case c == ';' || c == ' ' || c == '\t':
			return size, len(line) - digits, digits > 0
		default:
			return 0, 0, false
		}
		if size >= 1<<55 {
			return 0, 0, false
		}
		size = size<<4 | int64(c)
		digits++
	}
	return size, max(0, digits-8), digits > 0
}

// line returns the next line without its end. On an error it has consumed nothing.
func (b *body) line() ([]byte, error) {
	for searched := 0; ; {
		buffered, _ := b.src.Peek(b.src.Buffered())
		if i := bytes.IndexByte(buffered[searched:], '\n'); i >= 0 {
			line := buffered[:searched+i]
			b.src.Discard(len(line) + 1) //nolint:errcheck // it is buffered
			return bytes.TrimSuffix(line, []byte{'\r'}), nil
		}
		searched = len(buffered)
		if _, err := b.src.Peek(searched + 1); err == bufio.ErrBufferFull {
			return nil, errChunk
		} else if err != nil {
			return nil, err
		}
	}
}

// drain reads at most max more bytes of content, and reports whether the body was read
// to its end.
func (b *body) drain(scratch []byte, max int) bool {
	for !b.ended && max > 0 {
		n, err := b.Read(scratch)
		if err != nil {
			break
		}
		max -= n
	}
	return b.ended
}

func unexpected(err error) error {
	if err == io.EOF {
		return io.ErrUnexpectedEOF
	}
	return err
}
