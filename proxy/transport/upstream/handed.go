package upstream

import (
	"errors"
	"sync"
	"sync/atomic"
)

// maxWaiting is how many bytes of one client wait for a child without their sender, but for a single message that is longer.
const maxWaiting = 1 << 20

// Waiting counts the bytes of one client that wait for a child to read them, while their sender has gone on.
type Waiting struct{ bytes atomic.Int64 }

// add counts n bytes more. It returns false if as many wait as may.
func (w *Waiting) add(n int) bool {
	for {
		before := w.bytes.Load()
		if before > 0 && before+int64(n) > maxWaiting {
			return false
		}
		if w.bytes.CompareAndSwap(before, before+int64(n)) {
			return true
		}
	}
}

func (w *Waiting) remove(n int) { w.bytes.Add(-int64(n)) }

// Handed is returned by Send as the error for a message that waits for a busy child, in its place behind those before it,
// so that its sender can go on.
type Handed struct {
	takeBack func()

	mu   sync.Mutex
	told bool
	err  error
	then []func(error)
	wrap []func(error) error
}

func (h *Handed) Error() string { return "the message waits for the server to read it" }

// ErrTakenBack is what Then is called with for a message that was taken back before any of it was written.
var ErrTakenBack = errors.New("the message was taken back")

// Then makes do be called once the message is written, with nil, or will not be. It is called in another goroutine.
func (h *Handed) Then(do func(err error)) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.told {
		go func() { do(h.wrapped()) }()
		return
	}
	h.then = append(h.then, do)
}

// Wrap makes the error for Then the one that as returns for it, unless it is ErrTakenBack. It is called before Then.
func (h *Handed) Wrap(as func(error) error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.wrap = append(h.wrap, as)
}

// TakeBack takes the message back if none of it is written yet. It does not wait: Then says what has become of the message.
func (h *Handed) TakeBack() { h.takeBack() }

// tell ends the wait.
func (h *Handed) tell(err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.told, h.err = true, err
	if len(h.then) > 0 {
		go h.run()
	}
}

func (h *Handed) run() {
	h.mu.Lock()
	then := h.then
	h.mu.Unlock()
	err := h.wrapped()
	for _, do := range then {
		do(err)
	}
}

// wrapped returns the error for Then. It is called after tell.
func (h *Handed) wrapped() error {
	if h.err == nil || h.err == ErrTakenBack {
		return h.err
	}
	err := h.err
	for _, as := range h.wrap {
		err = as(err)
	}
	return err
}
