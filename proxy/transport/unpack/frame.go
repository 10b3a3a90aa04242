package unpack

import (
	"errors"
	"io"

	"github.com/klauspost/compress/zstd"
)

// frame reads one frame of zstd, and not what follows. It also passes over the skippable frames before it.
// See https://www.rfc-editor.org/rfc/rfc8878#section-3.1.
type frame struct {
	in    *input
	state frameState
	ready []byte // read of in, and not yet returned
	left  int64  // bytes of the block under way, or of the checksum
	last  bool   // the block under way is the last one
	sums  bool   // a checksum follows the last block
	head  [zstd.HeaderMaxSize]byte
}

// frameState says what is read next.
type frameState uint8

const (
	frameBlock  frameState = iota // the head of a block
	frameInside                   // what left counts
	frameSum                      // the checksum
	frameEnded
)

var errFrame = errors.New("no frame begins where one should")

// begin reads the head of the frame and returns its window. The error is io.EOF if there is no frame.
func (f *frame) begin() (window uint64, err error) {
	for {
		var h zstd.Header
		n := 0
		for short := io.ErrUnexpectedEOF; short != nil; {
			b, err := f.in.ReadByte()
			if err == io.EOF && n == 0 {
				return 0, io.EOF
			}
			if err != nil {
				return 0, unexpected(err)
			}
			f.head[n] = b
			n++
			if short = h.Decode(f.head[:n]); short != nil && (short != io.ErrUnexpectedEOF || n == len(f.head)) {
				return 0, errFrame
			}
		}
		if !h.Skippable {
			f.ready, f.sums = f.head[:n], h.HasCheckSum
			if h.SingleSegment {
				return max(h.FrameContentSize, zstd.MinWindowSize), nil
			}
			return h.WindowSize, nil
		}
		for left := int64(h.SkippableSize); left > 0; {
			if err := f.in.wait(); err != nil {
				return 0, unexpected(err)
			}
			skip := min(left, int64(len(f.in.bytes)))
			f.in.bytes = f.in.bytes[skip:]
			left -= skip
		}
	}
}

// Read implements [io.Reader]. It returns io.EOF behind the frame.
func (f *frame) Read(p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	for {
		switch {
		case len(f.ready) > 0:
			n := copy(p, f.ready)
			f.ready = f.ready[n:]
			return n, nil
		case f.left > 0:
			n, err := f.in.Read(p[:min(int64(len(p)), f.left)])
			f.left -= int64(n)
			return n, unexpected(err)
		case f.state == frameInside && !f.last:
			f.state = frameBlock
		case f.state == frameInside && f.sums:
			f.state, f.left = frameSum, 4
		case f.state != frameBlock:
			f.state = frameEnded
			return 0, io.EOF
		default:
			if err := f.block(); err != nil {
				return 0, err
			}
		}
	}
}

// block reads the head of a block.
func (f *frame) block() error {
	if _, err := io.ReadFull(f.in, f.head[:3]); err != nil {
		return unexpected(err)
	}
	f.ready = f.head[:3]
	head := uint32(f.head[0]) | uint32(f.head[1])<<8 | uint32(f.head[2])<<16
	f.last, f.left, f.state = head&1 != 0, int64(head>>3), frameInside
	if head>>1&3 == 1 { // one byte that is repeated
		f.left = 1
	}
	return nil
}
