package upstream

// Park implements Stream.
func (x *exchange) Park(w Waker) bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	c := x.conn
	if x.closed || c == nil {
		return false
	}
	x.waker, x.parked = w, x.http.pool.park(c, x)
	if !x.parked {
		x.waker, x.parks, c.silence = nil, false, 0
		_ = c.SetReadDeadline(x.deadline) // if that fails, the read fails as well
	}
	return x.parked
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
