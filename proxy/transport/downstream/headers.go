package downstream

import (
	"bytes"
	"cmp"
	"strconv"
	"strings"

	"github.com/valyala/fasthttp"
)

// tokenHeader has the token if Authorization is for the server.
const tokenHeader = "X-Dragoman-Token"

const (
	versionHeader = "Mcp-Protocol-Version"
	sessionHeader = "Mcp-Session-Id"
)

// headerOf returns a request header as handlers see it.
func headerOf(header *fasthttp.RequestHeader, name string) string {
	if strings.EqualFold(name, tokenHeader) {
		return "" // it is for the listener only
	}
	return string(valueIn(header, name))
}

// valueIn returns what all fields of a header say together: of a list, each field is a part
// (https://www.rfc-editor.org/rfc/rfc9110#section-5.3).
func valueIn(header *fasthttp.RequestHeader, name string) []byte {
	all := header.PeekAll(name)
	switch {
	case len(all) == 0:
		return nil
	case len(all) == 1:
		return all[0]
	case strings.EqualFold(name, fasthttp.HeaderCookie):
		return bytes.Join(all, []byte("; "))
	}
	return bytes.Join(all, []byte(", "))
}

// streamHead sets the headers of a response that is a stream.
func streamHead(header *fasthttp.ResponseHeader) {
	header.SetContentType("text/event-stream")
	header.Set(fasthttp.HeaderCacheControl, "no-cache")
	header.Set("X-Accel-Buffering", "no") // otherwise nginx would buffer events
}

// fill sets the status and the headers of a response.
func (r *Response) fill(out *fasthttp.Response) {
	if r.Status != 0 {
		out.SetStatusCode(r.Status)
	}
	for _, h := range r.Header {
		out.Header.Add(h.Name, h.Value)
	}
}

// chunked is the length of a body that is sent in chunks.
const chunked = -1

// appendHead appends the head of r with a body of this length. closes says that the connection is closed behind it.
func appendHead(dst []byte, r *Response, length int, closes bool) []byte {
	status := cmp.Or(r.Status, fasthttp.StatusOK)
	if status == fasthttp.StatusOK {
		dst = append(dst, "HTTP/1.1 200 OK\r\n"...)
	} else {
		dst = strconv.AppendInt(append(dst, "HTTP/1.1 "...), int64(status), 10)
		dst = append(append(append(dst, ' '), fasthttp.StatusMessage(status)...), "\r\n"...)
	}
	kind := ""
	switch {
	case length == chunked:
		kind = "text/event-stream"
	case length > 0:
		kind = "application/json"
	}
	for _, h := range r.Header {
		if strings.EqualFold(h.Name, fasthttp.HeaderContentType) {
			kind = h.Value
		}
	}
	if kind != "" {
		dst = appendField(dst, fasthttp.HeaderContentType, kind)
	}
	if length == chunked {
		dst = append(dst, "Cache-Control: no-cache\r\nX-Accel-Buffering: no\r\n"...)
	} else {
		dst = strconv.AppendInt(append(dst, "Content-Length: "...), int64(length), 10)
		dst = append(dst, "\r\n"...)
	}
	for _, h := range r.Header {
		if !ofTransport(h.Name) {
			dst = appendField(dst, h.Name, h.Value)
		}
	}
	if length == chunked {
		dst = append(dst, "Transfer-Encoding: chunked\r\n"...)
	}
	if closes {
		dst = append(dst, "Connection: close\r\n"...)
	}
	return append(dst, "\r\n"...)
}

// ofTransport reports whether the transport alone says what a header of a response is.
func ofTransport(name string) bool {
	for _, own := range [...]string{fasthttp.HeaderContentType, fasthttp.HeaderContentLength, fasthttp.HeaderTransferEncoding, fasthttp.HeaderConnection, fasthttp.HeaderTrailer, fasthttp.HeaderDate} {
		if len(name) == len(own) && strings.EqualFold(name, own) {
			return true
		}
	}
	return false
}

// appendField appends a header with its name in canonical form. A line end in the value becomes spaces.
func appendField(dst []byte, name, value string) []byte {
	upper := true
	for i := range len(name) {
		c := name[i]
		switch {
		case upper && c >= 'a' && c <= 'z':
			c -= 'a' - 'A'
		case !upper && c >= 'A' && c <= 'Z':
			c += 'a' - 'A'
		}
		dst = append(dst, c)
		upper = c == '-'
	}
	dst = append(dst, ": "...)
	from := len(dst)
	dst = append(dst, value...)
	for i, c := range dst[from:] {
		if c == '\r' || c == '\n' {
			dst[from+i] = ' '
		}
	}
	return append(dst, "\r\n"...)
}
