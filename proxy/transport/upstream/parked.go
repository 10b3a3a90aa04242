package upstream

import "github.com/dragoman-proxy/dragoman/proxy/protocol/mcp"

// Park implements Stream.
func (x *exchange) Park(w mcp.Waker) bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	c := x.conn
	if x.closed || c == nil || !x.parks {
		return false
	}
	if w != nil && x.http.pool.park(c, x) {
		x.waker, x.parked = w, true
		return true
	}
	x.parks, c.silence = false, 0
	_ = c.SetReadDeadline(x.deadline) // if that fails, the read fails as well
	return false
}

// Notice implements [rawio.Watcher].
func (x *exchange) Notice() {
	x.mu.Lock()
	defer x.mu.Unlock()
	if w := x.waker; w != nil {
		x.waker = nil
		w.Wake()
	}
}

// wake wakes a parked stream, whose connection c is about to be closed. x.mu must be held.
func (x *exchange) wake(c *conn) {
	if w := x.waker; w != nil {
		x.waker = nil
		x.http.pool.unpark(c)
		w.Wake()
	}
}
