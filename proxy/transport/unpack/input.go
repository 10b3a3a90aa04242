package unpack

import (
	"errors"
	"io"
)

// input is the source of a decoder. It leaves the coroutine when it has nothing.
type input struct {
	bytes []byte
	ended bool
	short bool // more was needed than there is
	yield func([]byte) bool
}

var errStopped = errors.New("stopped")

// wait waits for at least one byte.
func (in *input) wait() error {
	for len(in.bytes) == 0 {
		if in.ended {
			in.short = true
			return io.EOF
		}
		if !in.yield(nil) {
			return errStopped
		}
	}
	return nil
}

func (in *input) Read(p []byte) (int, error) {
	if err := in.wait(); err != nil {
		return 0, err
	}
	n := copy(p, in.bytes)
	in.bytes = in.bytes[n:]
	return n, nil
}

// ReadByte keeps decoders from reading ahead.
func (in *input) ReadByte() (byte, error) {
	if err := in.wait(); err != nil {
		return 0, err
	}
	b := in.bytes[0]
	in.bytes = in.bytes[1:]
	return b, nil
}

// unexpected makes the end of the source one within the content.
func unexpected(err error) error {
	if err == io.EOF {
		return io.ErrUnexpectedEOF
	}
	return err
}

// behind reads what was read already, and then the rest.
type behind struct {
	head []byte
	rest *input
}

func (b *behind) Read(p []byte) (int, error) {
	if len(b.head) == 0 {
		return b.rest.Read(p)
	}
	n := copy(p, b.head)
	b.head = b.head[n:]
	return n, nil
}

func (b *behind) ReadByte() (byte, error) {
	if len(b.head) == 0 {
		return b.rest.ReadByte()
	}
	c := b.head[0]
	b.head = b.head[1:]
	return c, nil
}
