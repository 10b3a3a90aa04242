package downstream

import (
	"io"
	"net"
	"sync"

	"github.com/valyala/fasthttp"
)

const (
	// keepBuffer is the largest buffer that is kept for the next request.
	keepBuffer = 64 << 10
	// copied is the largest body that is copied behind its head, to be written with it.
	copied = 2 << 10
	// gathered is the largest body that is written with its head without a copy. For larger ones the system takes longer
	// than for two writes.
	gathered = 128 << 10
	// piece is how many bytes of a response the client must take within WriteTimeout.
	piece = 1 << 20
)

// takeOver makes fasthttp release the connection, without a response, when its handler
// returns. It returns the response's head, which is valid until then. If the client is too old
// for chunks, the body is plain and ends with the connection.
func takeOver(ctx *fasthttp.RequestCtx) []byte {
	header := &ctx.Response.Header
	header.SetConnectionClose()
	if ctx.Request.Header.IsHTTP11() {
		header.SetContentLength(-1) // chunks
	}
	ctx.HijackSetNoResponse(true)
	ctx.Hijack(func(net.Conn) {})
	return header.Header()
}

// Parts of a chunk whose size is not known when it is begun: digits that are filled in
// later, and the end of the data.
const (
	chunkHead = "00000000\r\n"
	chunkTail = "\r\n"
	lastChunk = "0\r\n\r\n"
)

// closeChunk completes the chunk of what was appended behind a chunkHead, which ends at
// from.
func closeChunk(dst []byte, from int) []byte {
	setChunkSize(dst, from, len(dst)-from)
	return append(dst, chunkTail...)
}

// setChunkSize fills in the size of the chunk whose chunkHead ends at from.
func setChunkSize(dst []byte, from, size int) {
	const digits = "0123456789abcdef"
	for i := from - len(chunkTail) - 1; size > 0; i, size = i-1, size>>4 {
		dst[i] = digits[size&15]
	}
}

// flush writes what w has buffered.
func flush(w io.Writer) error {
	if f, ok := w.(interface{ Flush() error }); ok {
		return f.Flush()
	}
	return nil
}

// buffers are what is about to be written.
type buffers struct{ pool sync.Pool } // of *[]byte

// get returns an empty buffer.
func (b *buffers) get() *[]byte {
	if buf, ok := b.pool.Get().(*[]byte); ok {
		return buf
	}
	return new([]byte)
}

// put takes back a buffer, unless it is large.
func (b *buffers) put(buf *[]byte) {
	if cap(*buf) > keepBuffer {
		return
	}
	*buf = (*buf)[:0]
	b.pool.Put(buf)
}
