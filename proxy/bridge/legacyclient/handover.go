package legacyclient

import (
	"strings"
	"time"

	"github.com/tidwall/gjson"

	"github.com/dragoman-proxy/dragoman/proxy/protocol/mcp"
	"github.com/dragoman-proxy/dragoman/translate/wire"
)

const (
	// minOverlap and maxOverlap bound how long two requests name the same resources: until what the server has sent on the older
	// one must have come.
	minOverlap, maxOverlap = 50 * time.Millisecond, 500 * time.Millisecond
	// overlapTicks is how many parts that time has, each of which must pass in time.
	overlapTicks = 5
	// maxOverlaps bounds what is remembered of updates for that time, and overlapSize is what one takes besides its URI, both in bytes.
	maxOverlaps, overlapSize = 1 << 20, 256
)

// counts reports whether the client gets a message of w: not if it is an update of a resource that it is not subscribed to any more,
// or one that comes with another request.
func (c *Conn) counts(w *watch, m *wire.Message) bool {
	if m.Method != wire.ResourcesUpdated {
		return true
	}
	uri := gjson.Get(wire.View(m.Params()), "uri").String()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.subs.heard = true
	if !c.concerns(w, uri) {
		return false
	}
	return w.in == nil || w.in.counts(w, uri)
}

// concerns reports whether an update is one of w's subscriptions. The server may name another resource than the one subscribed to: one
// below it, or the same in another form. c.mu must be held.
func (c *Conn) concerns(w *watch, uri string) bool {
	owns := func(name string) bool {
		by := c.subs.watched[name]
		return by == w || by != nil && by.in != nil && by.in.to == w
	}
	if w.names[uri] && owns(uri) {
		return true
	}
	named, any := false, false
	for name := range w.names {
		own := owns(name)
		if strings.HasPrefix(uri, name) {
			if own {
				return true
			}
			named = true
		}
		any = any || own
	}
	return any && !named
}

// counts reports whether the client gets an update of w. The mutex of the session must be held.
func (h *handover) counts(w *watch, uri string) bool {
	o := h.unsettled[uri]
	if o == nil {
		if h.switched || h.bytes+len(uri)+overlapSize > maxOverlaps {
			return h.switched == (w == h.to)
		}
		h.bytes += len(uri) + overlapSize
		o = new(overlap)
		h.unsettled[strings.Clone(uri)] = o // it is the message's
	}
	if w == h.to {
		o.held++
		o.heldAt = time.Now()
		return false
	}
	o.told++
	o.toldAt = time.Now()
	return true
}

// overlap waits until the new request of a handover has taken the place of the older ones. quiet is how long there must have been no update
// of a resource.
func (c *Conn) overlap(h *handover, quiet time.Duration) {
	tick := time.NewTicker(quiet / overlapTicks)
	defer tick.Stop()
	for until := time.Now().Add(20 * quiet); ; {
		for n := 0; n < overlapTicks; n++ {
			last := time.Now()
			select {
			case <-tick.C:
				if late := time.Since(last) > 2*quiet/overlapTicks; late && last.Before(until) {
					n = -1 // this process had no time to read, either
				}
			case <-h.broken:
				n = overlapTicks
			case <-h.to.ctx.Done():
				n = overlapTicks
			}
		}
		c.mu.Lock()
		h.switched = true
		for name, o := range h.unsettled {
			if time.Since(o.toldAt) >= quiet && time.Since(o.heldAt) >= quiet {
				c.conclude(h, name)
			}
		}
		over := len(h.unsettled) == 0 || len(h.lost) > 0 || h.to.ctx.Err() != nil || time.Now().After(until)
		c.mu.Unlock()
		if over {
			return
		}
	}
}

// conclude makes the new request the one whose updates of a resource count, and tells the client of an update that has come on it alone.
// c.mu must be held.
func (c *Conn) conclude(h *handover, uri string) {
	o := h.unsettled[uri]
	delete(h.unsettled, uri)
	h.bytes -= len(uri) + overlapSize
	if o.held > o.told || o.held > 0 && o.heldAt.After(o.toldAt) && time.Since(o.heldAt) < minOverlap {
		c.tell([][]byte{mcp.Updated(uri)})
	}
}
