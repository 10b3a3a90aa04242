package observe

import "github.com/dragoman-proxy/dragoman/translate"

// contents is all that there is of a call.
type contents struct {
	call     *Call
	messages []*Message
	notes    []*Note
	end      *End        // nil if it has not ended
	first    [4]*Message // memory for messages
}

func newContents(c *Call) *contents {
	has := &contents{call: c}
	has.messages = has.first[:0]
	return has
}

// packedCall is a call that has ended, with its messages and notes.
type packedCall struct {
	text []byte
	long [][]byte // messages that are not in text
	by   [2]*translate.Translator
	in   *chunk // has both; nil for a call that has memory of its own
}

// chunks is memory for packed calls, which is used again and again: if each call had its own, the collector would run more
// often, and the heap would have holes in which nothing else fits. Calls are forgotten in about the order in which they were
// packed, so all calls of a chunk are soon forgotten.
type chunks struct {
	now     *chunk   // the one that is filled; nil before the first call
	free    []*chunk // that no call uses
	scratch []byte   // memory to write a text in
}

// chunk is a piece of memory for texts. A text must not be used after its call is released: the memory is used again, or
// returned to the system.
type chunk struct {
	text  []byte
	calls int // that use it
}

// These constants are the size of a chunk, what a call in one takes at most, and how many are kept for later.
const (
	chunkBytes = 1 << 20
	maxInChunk = 256 << 10
	maxFree    = 1
)
