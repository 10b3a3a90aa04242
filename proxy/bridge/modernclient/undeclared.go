package modernclient

// If the server asks a question for which the client has not declared the capability, dragoman answers
// the question in the client's place, and the call continues. If the call then fails, the client
// receives an error that names the missing capability. See
// https://modelcontextprotocol.io/specification/2026-07-28/basic/index#error-codes.

// lacks notes, for the newest call in which the server may ask, that its client lacks a capability.
func (b *pooledSession) lacks(required []byte) {
	talks, _ := b.lend()
	defer b.giveBack()
	if n := len(talks); n > 0 {
		talks[n-1].lacks(required)
	}
}

func (d *parkedCall) lacks(required []byte) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.missing = required
}
