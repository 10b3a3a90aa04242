package sse

import (
	"errors"
	"fmt"

	"github.com/dragoman-proxy/dragoman/proxy/bytes/envelope"
)

// TooLargeError is returned for an event with more bytes than the reader accepts, or for
// which there was no memory.
type TooLargeError struct {
	Limit   int   // the most bytes that the reader accepts
	Skipped bool  // the event was skipped and the stream can be read further
	NoRoom  error // why there was no memory for it; nil if it is larger than Limit

	Message envelope.Finder // has seen the event's data as far as it was read
}

func (e *TooLargeError) Error() string {
	if e.NoRoom != nil {
		return e.NoRoom.Error()
	}
	return fmt.Sprintf("server-sent event is larger than the limit of %d bytes", e.Limit)
}

// errTooLarge is what line returns to Next, which knows the event's data so far.
var errTooLarge = errors.New("event is too large")

// span is a part of the event under way, as offsets from its start.
type span struct{ from, to int }

var noSpan = span{-1, -1}
