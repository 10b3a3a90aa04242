package network

import (
	"slices"
	"syscall"
	"time"
)

// weather is what delays or refuses what is between two hosts for a time, also what begins meanwhile.
type weather struct {
	a, b        string
	still, slow time.Time // until when nothing arrives, and bytes trickle
	refuses     time.Time // until when dials to b are refused
	hangs       time.Time // until when they wait
}

// between reports whether w is between p and q: of them, a and b are "" for any.
func (w weather) between(p, q string) bool { return between(w.a, w.b, p, q) }

func between(a, b, p, q string) bool { return is(p, a) && is(q, b) || is(p, b) && is(q, a) }

func is(host, name string) bool { return name == "" || host == name }

func (k *link) weather(w weather) { k.still, k.slow = later(k.still, w.still), later(k.slow, w.slow) }

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// each calls do for the links between a and b.
func (n *Network) each(a, b string, do func(*link)) {
	defer n.lock().Unlock()
	for _, k := range n.links {
		if between(a, b, k.ends[0].host, k.ends[1].host) {
			do(k)
		}
	}
}

// Cut resets the connections that are open between a and b, each once that many more bytes went through it in either direction. A
// pipe ends at both ends.
func (n *Network) Cut(a, b string, after int) {
	n.each(a, b, func(k *link) {
		if k.cuts, k.more = !k.vanished, after; k.cuts && after <= 0 {
			k.cut()
		}
	})
}

// Half ends the sending of a on its connections with b, without its knowledge: what a writes later is reset.
func (n *Network) Half(a, b string) {
	n.each(a, b, func(k *link) {
		for i := range k.ends {
			switch e := &k.ends[i]; {
			case !is(e.host, a) || !is(e.other.host, b) || e.closed || e.killed || k.vanished:
			case k.pipe:
				e.finish()
			default:
				e.severed = true
				e.other.seesEnd()
			}
		}
	})
}

// Vanish makes the network forget the connections that are open between a and b: what is sent on them is lost without a word, for ever.
// An end fails when bytes that it has sent were not acknowledged for n.Dead.
func (n *Network) Vanish(a, b string) {
	n.each(a, b, func(k *link) {
		if k.pipe || k.vanished {
			return
		}
		k.vanished = true
		for i := range k.ends {
			k.ends[i].move()
			if n.KeepAlive > 0 {
				k.ends[i].failAfter(n.KeepAlive)
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

// Refuse refuses dials to host for d.
func (n *Network) Refuse(host string, d time.Duration) {
	n.cast(weather{b: host, refuses: time.Now().Add(d)}, d)
}

// Hang lets dials to host wait for d.
func (n *Network) Hang(host string, d time.Duration) {
	n.cast(weather{b: host, hangs: time.Now().Add(d)}, d)
}

func (n *Network) cast(w weather, d time.Duration) {
	n.each(w.a, w.b, func(k *link) { k.weather(w) })
	defer n.lock().Unlock()
	n.weather = append(n.weather, w)
	n.look()
	time.AfterFunc(d, func() {
		defer n.lock().Unlock()
		n.settle()
	})
}

// settle lets arrive what can, after the weather has changed. n.mu must be held.
func (n *Network) settle() {
	over := func(t time.Time) bool { return !time.Now().Before(t) }
	n.weather = slices.DeleteFunc(n.weather, func(w weather) bool { return over(w.still) && over(w.slow) && over(w.refuses) && over(w.hangs) })
	for _, k := range n.links {
		k.ends[0].move()
		k.ends[1].move()
	}
}

// Heal ends all that delays or refuses now, and takes back the cuts that have not happened. What has vanished stays so.
func (n *Network) Heal() {
	n.each("", "", func(k *link) { k.still, k.slow, k.cuts = time.Time{}, time.Time{}, false })
	defer n.lock().Unlock()
	n.weather = nil
	n.settle()
	n.look()
}

// Kill cuts the power of host. Its listeners refuse, its connections are reset for their peers, and its pipes end. What it writes
// afterwards is lost, and what it reads and dials fails, until its owners have closed all: Revive is for what is new.
func (n *Network) Kill(host string) {
	defer n.lock().Unlock()
	n.lives[host] = life{n.lives[host].n + 1, true}
	for _, l := range n.listeners {
		if l.host == host {
			l.leave()
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
	defer n.lock().Unlock()
	n.lives[host] = life{n.lives[host].n, false}
}

// cut ends a link at both ends.
func (k *link) cut() {
	k.cuts = false
	k.ends[0].reset(syscall.ECONNRESET)
	k.ends[1].reset(syscall.ECONNRESET)
}

// kill is a powercut at e.
func (e *end) kill() {
	if !e.killed && !e.closed {
		e.reset(syscall.ECONNRESET)
		if e.killed = true; !e.link.vanished {
			e.other.reset(syscall.ECONNRESET)
		}
	}
}
