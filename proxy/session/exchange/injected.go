package exchange

import "sync"

// injected lets other goroutines send messages to the client of an exchange, between those of its stream. Its methods may be
// called on nil.
type injected struct {
	spawn func(func())

	mu   sync.Mutex  // held while the client is sent something
	open func() bool // reports whether Answer runs
	send func(m []byte)
	over bool // the exchange has ended
}

func (in *injected) lock() {
	if in != nil {
		in.mu.Lock()
	}
}

func (in *injected) unlock() {
	if in != nil {
		in.mu.Unlock()
	}
}

// end makes put return false.
func (in *injected) end() {
	if in != nil {
		in.lock()
		defer in.unlock()
		in.over = true
	}
}

// put sends a message of dragoman's own. It does not wait for the client. It returns false if Answer does not run. It calls
// lost if Answer ends before the message is sent.
func (in *injected) put(m []byte, lost func()) bool {
	if in.mu.TryLock() { // else the client is being sent something
		runs := in.runs()
		in.unlock()
		if !runs {
			return false
		}
	}
	in.spawn(func() {
		in.lock()
		defer in.unlock()
		if !in.runs() {
			lost()
			return
		}
		in.send(m)
	})
	return true
}

// runs reports whether Answer runs. in.mu must be held.
func (in *injected) runs() bool { return !in.over && in.open() }
