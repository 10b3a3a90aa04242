package downstream

import (
	"net"
	"strconv"

	"github.com/valyala/fasthttp"
)

// streamHead sets the headers of a response that is a stream.
func streamHead(header *fasthttp.ResponseHeader) {
	header.SetContentType("text/event-stream")
	header.Set(fasthttp.HeaderCacheControl, "no-cache")
	header.Set("X-Accel-Buffering", "no") // otherwise nginx would buffer events
}

// takeOver makes fasthttp release the connection, without a response, when its handler
// returns. It appends the response's head to dst. If the client is too old for chunks,
// the body is plain and ends with the connection.
func takeOver(ctx *fasthttp.RequestCtx, dst []byte) []byte {
	header := &ctx.Response.Header
	header.SetConnectionClose()
	if ctx.Request.Header.IsHTTP11() {
		header.SetContentLength(-1) // chunks
	}
	ctx.HijackSetNoResponse(true)
	ctx.Hijack(func(net.Conn) {})
	return append(dst, header.Header()...)
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
	const digits = "0123456789abcdef"
	for i, n := from-len(chunkTail)-1, len(dst)-from; n > 0; i, n = i-1, n>>4 {
		dst[i] = digits[n&15]
	}
	return append(dst, chunkTail...)
}

// chunkWriter writes each Write as a chunk on the connection, in as few writes as
// possible without copying much.
type chunkWriter struct {
	face  *HTTP
	conn  *conn
	plain bool
}

func (w *chunkWriter) Write(p []byte) (n int, err error) {
	if w.plain {
		return w.conn.Conn.Write(p)
	}
	buf := w.face.buffer()
	defer w.face.giveBack(buf)
	*buf = append(strconv.AppendInt(*buf, int64(len(p)), 16), chunkTail...)
	if len(p) <= largeData {
		*buf = append(append(*buf, p...), chunkTail...)
		if _, err := w.conn.Conn.Write(*buf); err != nil {
			return 0, err
		}
		return len(p), nil
	}
	for _, part := range [][]byte{*buf, p, []byte(chunkTail)} {
		if _, err := w.conn.Conn.Write(part); err != nil {
			return 0, err
		}
	}
	return len(p), nil
}

// end writes the end of the body.
func (w *chunkWriter) end() error {
	if w.plain {
		return nil
	}
	return w.conn.write([]byte(lastChunk))
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
