package peertest

import (
	"io"
	"net/http"

	"github.com/klauspost/compress/flate"
	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zlib"
	"github.com/klauspost/compress/zstd"
	brotli "github.com/molecule-man/go-brrr"
)

// Packer compresses what is written to it. Flush writes out what it holds back.
type Packer interface {
	io.WriteCloser
	Flush() error
}

// Packing is a way in which a server compresses.
type Packing struct {
	Name     string
	Encoding string // the Content-Encoding
	To       func(w io.Writer) Packer
}

// Packings are the ways in which servers compress.
var Packings = []Packing{
	{"gzip", "gzip", func(w io.Writer) Packer { return gzip.NewWriter(w) }},
	{"deflate", "deflate", func(w io.Writer) Packer { return zlib.NewWriter(w) }},
	{"raw deflate", "deflate", func(w io.Writer) Packer { return mustPack(flate.NewWriter(w, flate.BestSpeed)) }},
	{"br", "br", func(w io.Writer) Packer { return mustPack(brotli.NewWriter(w, 4)) }},
	{"zstd", "zstd", func(w io.Writer) Packer {
		return mustPack(zstd.NewWriter(w, zstd.WithEncoderConcurrency(1), zstd.WithWindowSize(1<<20)))
	}},
}

func mustPack[P Packer](p P, err error) Packer {
	if err != nil {
		panic(err)
	}
	return p
}

// Pack returns content as p packs it.
func (p Packing) Pack(content string) []byte {
	var b writes
	w := p.To(&b)
	io.WriteString(w, content) //nolint:errcheck // it is in memory
	w.Close()
	return b
}

type writes []byte

func (b *writes) Write(p []byte) (int, error) {
	*b = append(*b, p...)
	return len(p), nil
}

// Packed returns a handler that answers as h does, and compresses each response with a body, whatever the request accepts. What h
// flushes goes out at once.
func (p Packing) Packed(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		out := &packedResponse{ResponseWriter: w, by: p}
		defer out.end()
		h.ServeHTTP(out, r)
	})
}

type packedResponse struct {
	http.ResponseWriter
	by   Packing
	to   Packer // nil without a body
	head bool
}

func (w *packedResponse) WriteHeader(status int) {
	if !w.head && status >= 200 {
		w.head = true
		if status != http.StatusNoContent && status != http.StatusAccepted {
			w.to = w.by.To(w.ResponseWriter)
			w.Header().Set("Content-Encoding", w.by.Encoding)
			w.Header().Del("Content-Length")
		}
	}
	w.ResponseWriter.WriteHeader(status)
}

func (w *packedResponse) Write(p []byte) (int, error) {
	if !w.head {
		w.WriteHeader(http.StatusOK)
	}
	if w.to == nil {
		return w.ResponseWriter.Write(p)
	}
	return w.to.Write(p)
}

// FlushError is called by [http.ResponseController].
func (w *packedResponse) FlushError() error {
	if !w.head {
		w.WriteHeader(http.StatusOK)
	}
	if w.to != nil {
		if err := w.to.Flush(); err != nil {
			return err
		}
	}
	return http.NewResponseController(w.ResponseWriter).Flush()
}

// Flush implements [http.Flusher].
func (w *packedResponse) Flush() { _ = w.FlushError() }

func (w *packedResponse) end() {
	if w.to != nil {
		_ = w.to.Close() // the client may have left
	}
}
