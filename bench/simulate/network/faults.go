package network

import (
	"slices"
	"time"
)

// weather is what delays the connections between two hosts, also those that are made meanwhile.
type weather struct {
	a, b        string
	still, slow time.Time
}

func (w weather) between(a, b string) bool { return between(a, b, w.a, w.b) }

// between reports whether a link between the hosts p and q is one between a and b, which are "" for any.
func between(p, q, a, b string) bool {
	return is(p, a) && is(q, b) || is(p, b) && is(q, a)
}

func is(host, name string) bool { return name == "" || host == name }

func (k *link) weather(w weather) {
	k.still, k.slow = later(k.still, w.still), later(k.slow, w.slow)
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// each calls do for the links between a and b. n.mu must be held.
func (n *Network) each(a, b string, do func(*link)) {
	for _, k := range n.links {
		if between(k.ends[0].host, k.ends[1].host, a, b) {
			do(k)
		}
	}
}

// Cut resets the connections that are open between a and b, each once that many more bytes went through it in either direction. A
// pipe ends at both ends.
func (n *Network) Cut(a, b string, after int) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.each(a, b, func(k *link) {
		if k.cuts, k.more = true, after; after <= 0 {
			k.cut()
		}
	})
}

// Half ends the sending of a on its connections with b, without its knowledge: what a writes later is reset.
func (n *Network) Half(a, b string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.each(a, b, func(k *link) {
		for i := range k.ends {
			e := &k.ends[i]
			switch {
			case !is(e.host, a) || !is(e.other.host, b):
			case e.closed || e.killed:
			case k.pipe:
				e.shut, e.fin = true, true
				e.mayWrite.cond.Broadcast()
				e.move()
			default:
				e.severed = true
				e.other.seesEnd()
			}
		}
	})
}

// Stall lets nothing through between a and b for d, no attempt to connect either. Then all goes on.
func (n *Network) Stall(a, b string, d time.Duration) {
	n.cast(weather{a: a, b: b, still: time.Now().Add(d)}, d)
}

// Trickle lets one byte in a millisecond through between a and b, in each direction, for d.
func (n *Network) Trickle(a, b string, d time.Duration) {
	n.cast(weather{a: a, b: b, slow: time.Now().Add(d)}, d)
}

func (n *Network) cast(w weather, d time.Duration) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.closed {
		return
	}
	n.weather = append(n.weather, w)
	n.each(w.a, w.b, func(k *link) { k.weather(w) })
	n.timers = append(n.timers, time.AfterFunc(d, func() {
		n.mu.Lock()
		defer n.mu.Unlock()
		n.settle()
	}))
}

// settle lets arrive what can. n.mu must be held.
func (n *Network) settle() {
	now := time.Now()
	n.weather = slices.DeleteFunc(n.weather, func(w weather) bool { return !now.Before(w.still) && !now.Before(w.slow) })
	for _, k := range n.links {
		k.ends[0].move()
		k.ends[1].move()
	}
}

// Vanish makes the network forget the connections that are open between a and b: what is sent on them is lost without a word, for ever.
// An end fails when bytes that it has sent were not acknowledged for n.Dead.
func (n *Network) Vanish(a, b string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.each(a, b, func(k *link) {
		if k.pipe || k.vanished {
			return
		}
		k.vanished = true
		for i := range k.ends {
			k.ends[i].move()
			if n.KeepAlive > 0 {
				k.ends[i].doubtAfter(n.KeepAlive)
			}
		}
	})
}

// Refuse refuses dials to host for d.
func (n *Network) Refuse(host string, d time.Duration) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.refused[host] = later(n.refused[host], time.Now().Add(d))
	n.look()
}

// Hang lets dials to host wait for d.
func (n *Network) Hang(host string, d time.Duration) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.hangs[host] = later(n.hangs[host], time.Now().Add(d))
}

// Kill cuts the power of host. Its listeners refuse, its connections are reset for their peers, and its pipes end. What it writes
// afterwards is lost, and what it reads and dials fails, until its owners have closed all: Revive is for what is new.
func (n *Network) Kill(host string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.lives[host] = life{n.lives[host].n + 1, true}
	for port, l := range n.listeners {
		if l.host == host {
			l.drop()
			delete(n.listeners, port)
		}
	}
	for _, k := range n.links {
		for i := range k.ends {
			if k.ends[i].host == host {
				k.ends[i].kill()
			}
		}
	}
	n.look()
}

// Revive lets a host that was killed listen and dial again.
func (n *Network) Revive(host string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.lives[host] = life{n.lives[host].n, false}
}

// Heal ends all that delays or refuses now, and takes back the cuts that have not happened. What has vanished stays so.
func (n *Network) Heal() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.weather = nil
	clear(n.refused)
	clear(n.hangs)
	for _, k := range n.links {
		k.still, k.slow, k.cuts = time.Time{}, time.Time{}, false
	}
	n.settle()
	n.look()
}
