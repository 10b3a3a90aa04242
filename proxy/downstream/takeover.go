package downstream

import (
	"net"

	"github.com/valyala/fasthttp"
)

// streamHead sets the headers of a response that is a stream.
func streamHead(header *fasthttp.ResponseHeader) {
	header.SetContentType("text/event-stream")
	header.Set(fasthttp.HeaderCacheControl, "no-cache")
	header.Set("X-Accel-Buffering", "no") // otherwise nginx would buffer events
}

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

// buffer returns an empty buffer for what is about to be written.
func (h *HTTP) buffer() *[]byte { return h.buffers.Get().(*[]byte) }

// giveBack takes back a buffer, unless it is large.
func (h *HTTP) giveBack(buf *[]byte) {
	if cap(*buf) > keepBuffer {
		return
	}
	*buf = (*buf)[:0]
	h.buffers.Put(buf)
}
