package upstream

import "time"

// A message on the one stream of a session waits for memory for pipeWait at most,
// because all later messages wait behind it. An answer with a response of its own waits
// as long as the server may be silent, and for maxWait at most.
const (
	pipeWait = 30 * time.Second
	maxWait  = 5 * time.Minute
)

// patience returns how long an exchange waits for memory.
func (k kind) patience(silence time.Duration) time.Duration {
	switch {
	case k.standing():
		return pipeWait
	case silence > 0:
		return min(maxWait, silence)
	}
	return maxWait
}

// buffer holds bytes that are reused.
type buffer struct{ b []byte }

const (
	smallBuffer = 4 << 10
	// keepBuffer is the largest buffer that is used again.
	keepBuffer = 64 << 10
)

func (h *HTTP) buffer() *buffer {
	buf := h.buffers.Get().(*buffer)
	buf.b = buf.b[:0]
	return buf
}

func (h *HTTP) release(buf *buffer) {
	if cap(buf.b) <= keepBuffer {
		h.buffers.Put(buf)
	}
}
