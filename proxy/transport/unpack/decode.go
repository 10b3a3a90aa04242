package unpack

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"github.com/klauspost/compress/flate"
	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zlib"
	"github.com/klauspost/compress/zstd"
	brotli "github.com/molecule-man/go-brrr"
)

// What decoders take besides the window, in bytes, for tables and blocks.
const (
	flateSize  = 64 << 10 // with its window of 32 KiB
	brotliMore = 1 << 20
	zstdMore   = 1 << 20
)

// outputSize is how much is decoded at once.
const outputSize = 16 << 10

var (
	errBehind = errors.New("something follows its end")
	errPanic  = errors.New("the decoder has failed")
)

// decoder decodes its input.
type decoder struct {
	in     input
	coding Coding
	hold   func(n int) error // takes memory, so that the decoder has n bytes
	fault  error             // why the decoder has ended; nil for the end of the content
}

// run yields all of the content piece by piece, and nil when it needs more input.
func (d *decoder) run(yield func([]byte) bool) {
	defer func() {
		if recover() != nil {
			d.fault = errPanic
		}
	}()
	d.in.yield = yield
	switch d.coding {
	case Gzip:
		d.fault = d.gzip(yield)
	case Deflate:
		d.fault = d.deflate(yield)
	case Brotli:
		d.fault = d.brotli(yield)
	case Zstd:
		d.fault = d.zstd(yield)
	}
	if d.fault == nil && d.in.wait() == nil {
		d.fault = errBehind
	}
}

// pass yields all of z.
func pass(z io.Reader, yield func([]byte) bool) error {
	buf := make([]byte, outputSize)
	for {
		n, err := z.Read(buf)
		if n > 0 && !yield(buf[:n]) {
			return errStopped
		}
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

func (d *decoder) gzip(yield func([]byte) bool) error {
	if err := d.hold(flateSize); err != nil {
		return err
	}
	z, err := gzip.NewReader(&d.in)
	if err != nil {
		return unexpected(err)
	}
	return pass(z, yield)
}

// deflate decodes the format of zlib if the first two bytes are its header.
func (d *decoder) deflate(yield func([]byte) bool) error {
	if err := d.hold(flateSize); err != nil {
		return err
	}
	var head [2]byte
	if _, err := io.ReadFull(&d.in, head[:]); err != nil {
		return unexpected(err)
	}
	src := &behind{head[:], &d.in}
	if head[0]&0x0f == 8 && head[0]>>4 <= 7 && binary.BigEndian.Uint16(head[:])%31 == 0 {
		z, err := zlib.NewReader(src)
		if err != nil {
			return unexpected(err)
		}
		return pass(z, yield)
	}
	return pass(flate.NewReader(src), yield)
}

func (d *decoder) brotli(yield func([]byte) bool) error {
	if err := d.in.wait(); err != nil {
		return err
	}
	window := 1 << windowBits(d.in.bytes[0])
	if window > MaxWindow {
		return tooWide(uint64(window))
	}
	if err := d.hold(2*window + brotliMore); err != nil { // what fills the window is copied for the reader
		return err
	}
	z := brotli.NewReader(&d.in)
	defer z.Close() //nolint:errcheck // it has none
	if err := pass(z, yield); err != nil {
		return err
	}
	for d.in.wait() == nil { // the decoder has read ahead, and does not say how far: so nothing that follows is an error
		d.in.bytes = nil
	}
	return nil
}

// windowBits returns the binary logarithm of the window of a brotli stream that begins with b.
// See https://www.rfc-editor.org/rfc/rfc7932#section-9.1.
func windowBits(b byte) int {
	switch {
	case b&1 == 0:
		return 16
	case b>>1&7 != 0:
		return 17 + int(b>>1&7)
	case b>>4&7 != 0:
		return 8 + int(b>>4&7)
	}
	return 17
}

func tooWide(window uint64) error {
	return fmt.Errorf("a window of %d bytes, at most %d are supported", window, MaxWindow)
}

// zstd decodes one frame after the other: each may have a window of its own.
func (d *decoder) zstd(yield func([]byte) bool) error {
	z, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true), zstd.WithDecoderMaxWindow(MaxWindow))
	if err != nil {
		return err
	}
	defer z.Close()
	for {
		f := &frame{in: &d.in}
		window, err := f.begin()
		switch {
		case err == io.EOF:
			return nil // between two frames
		case err != nil:
			return unexpected(err)
		case window > MaxWindow:
			return tooWide(window)
		}
		if err := d.hold(int(window) + min(int(window), 1<<20) + zstdMore); err != nil {
			return err
		}
		if err := z.Reset(f); err != nil {
			return err
		}
		if err := pass(z, yield); err != nil {
			return err
		}
		if f.state != frameEnded { // the decoder has not read the frame to its end
			return errBehind
		}
	}
}
