package inspect

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"path"
	"strings"
	"sync"

	"github.com/valyala/fasthttp"
)

// file is a file of the page. It is read and compressed when it is first asked for: most processes are never looked at.
type file struct {
	read            func() ([]byte, error)
	kind            string
	once            sync.Once
	err             error
	tag             string
	plain, squeezed []byte
}

func (f *file) load() {
	if f.plain, f.err = f.read(); f.err != nil {
		return
	}
	sum := sha256.Sum256(f.plain)
	f.tag = `"` + hex.EncodeToString(sum[:8]) + `"`
	var b bytes.Buffer
	w, _ := gzip.NewWriterLevel(&b, gzip.BestCompression) // the level is valid
	if _, err := w.Write(f.plain); err == nil && w.Close() == nil && b.Len() < len(f.plain) {
		f.squeezed = b.Bytes()
	}
}

func (f *file) serve(c *fasthttp.RequestCtx) {
	if f.once.Do(f.load); f.err != nil {
		refuse(c, fasthttp.StatusInternalServerError, "a file of the page cannot be read: "+f.err.Error())
		return
	}
	header := &c.Response.Header
	header.Set(fasthttp.HeaderETag, f.tag)
	header.Set(fasthttp.HeaderCacheControl, "no-cache")
	header.Set(fasthttp.HeaderVary, fasthttp.HeaderAcceptEncoding)
	if strings.Contains(string(c.Request.Header.Peek(fasthttp.HeaderIfNoneMatch)), f.tag) {
		c.SetStatusCode(fasthttp.StatusNotModified)
		return
	}
	c.SetContentType(f.kind)
	if f.squeezed != nil && c.Request.Header.HasAcceptEncoding("gzip") {
		header.Set(fasthttp.HeaderContentEncoding, "gzip")
		c.SetBody(f.squeezed)
		return
	}
	c.SetBody(f.plain)
}

// kindOf returns the media type of a file. The tables of the system are not asked: they may say otherwise of scripts.
func kindOf(name string) string {
	switch path.Ext(name) {
	case ".js":
		return "text/javascript; charset=utf-8"
	case ".css":
		return "text/css; charset=utf-8"
	case ".html":
		return "text/html; charset=utf-8"
	}
	return "application/octet-stream"
}
