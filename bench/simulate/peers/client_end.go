package peers

import (
	"encoding/json"
	"time"

	"github.com/dragoman-proxy/dragoman/bench/simulate/trace"
)

// lose ends the session for the client: the next step begins another one. why is "" if it never began.
func (s *clientSession) lose(why string) {
	if s.over {
		return
	}
	s.over = true
	if !s.ok {
		close(s.began)
	}
	if s.c.session == s {
		s.c.session = nil
	}
	if s.standing != nil {
		if s.standing.opened && why != "" {
			s.note(s.standing, trace.Event{Kind: trace.Closed, Text: why})
		}
		s.standing.leave()
		s.standing = nil
	}
	for _, k := range s.listens {
		k.quiet()
		k.end()
		if k.x != nil {
			k.x.leave()
		}
	}
	clear(s.listens)
}

// end makes an end of the call for the client, whatever came of it.
func (k *call) end() {
	delete(k.s.c.wanted, k)
	k.ended = true
	k.unregister()
}

// unregister takes k out of those that have no answer yet.
func (k *call) unregister() {
	list := k.s.open[k.id]
	for i := range list {
		if list[i] == k {
			list = append(list[:i:i], list[i+1:]...)
			break
		}
	}
	if k.s.open[k.id] = list; len(list) == 0 {
		delete(k.s.open, k.id)
	}
}

// quiet makes k one of which nothing is awaited any more; what comes is written down still.
func (k *call) quiet() {
	k.silent = true
	delete(k.s.c.wanted, k)
}

// refuse notes that there will be no answer.
func (k *call) refuse(why string) {
	if k.ended {
		return
	}
	k.end()
	k.s.answered[k.id] = "refused"
	switch {
	case k.listen != nil:
		k.stopped(why)
	case !k.silent:
		k.s.note(k.x, trace.Event{Kind: trace.Refused, Mark: k.mark, Method: k.method, ID: k.id, Failed: why})
		if k.then != nil {
			k.then(nil, why)
		}
	}
	if !k.s.ok {
		k.s.lose("") // it was the request that begins it
	}
}

// cancel tells the server that the answer is of no use any more.
func (k *call) cancel() {
	if k.ended || k.silent && !k.hung || k.s == nil || k.s.over || k.s.c.gone {
		return
	}
	k.hung = false
	if k.s.c.modern && k.silent {
		return
	}
	s := k.s
	s.note(nil, trace.Event{Kind: trace.Cancels, Mark: k.mark, Method: k.method, ID: k.id})
	k.quiet()
	if k.task != "" {
		k.cancelTask()
		return
	}
	k.giveUp()
}

// giveUp tells the server, in the way of the revision, that nothing is awaited.
func (k *call) giveUp() {
	if k.s.c.modern && k.s.c.o.Transport == "http" {
		if k.x != nil {
			k.x.leave()
		}
		k.end()
		return
	}
	if k.pages != nil { // nothing of it is open
		k.end()
		return
	}
	k.s.tell("notifications/cancelled", k.mark, object{"requestId": json.RawMessage(k.id), "reason": "the user has changed its mind"})
}

// hang closes the way back of the call, without a word.
func (k *call) hang() {
	if k.ended || k.silent || k.x == nil || k.x.left || k.s.c.o.Transport != "http" {
		return
	}
	k.s.note(k.x, trace.Event{Kind: trace.Unheard, Mark: k.mark, Method: k.method, ID: k.id})
	for _, other := range k.x.calls {
		other.hung = true
		other.quiet()
	}
	k.s.breakOff(k.x)
}

// breakOff closes x, and keeps it for back if it can be resumed.
func (s *clientSession) breakOff(x *exchange) {
	if x.left {
		return
	}
	x.leave()
	if x.last != "" && x.waits() {
		s.broken = append(s.broken, x)
	}
}

// leave goes away without a word. The session is kept if keep is set, for back and for the next step.
func (c *Client) leave(keep bool) {
	s := c.session
	if s == nil && len(c.active) == 0 {
		return
	}
	c.note(trace.Event{Kind: trace.Leaves, Session: s.ident()})
	c.unwant(nil)
	if keep = keep && s != nil && s.ok; keep {
		s.leaves++
		s.away = true
		if s.standing != nil {
			s.last = s.standing.last
			s.standing.leave()
			s.standing = nil
		}
		for x := range c.active {
			if x.s == s {
				s.breakOff(x)
			}
		}
	} else if s != nil {
		s.lose("")
	}
	c.hangUp()
}

// hangUp closes all connections; of a pipe what dragoman reads, and what it writes is read to its end.
func (c *Client) hangUp() {
	if c.box != nil {
		c.gone = true
		c.box.close()
	}
	for x := range c.active {
		x.leave()
	}
	for _, k := range c.idle {
		k.Close()
	}
	c.idle = nil
}

// finish ends what dragoman reads of a pipe, and waits for the answers to what is open.
func (c *Client) finish() {
	if c.box != nil && c.session != nil && c.session.ok {
		c.note(trace.Event{Kind: trace.Finishes})
		c.gone = true
		c.box.close()
	}
}

// unwant makes all that is of session s, or all if it is nil, such that nothing is awaited.
func (c *Client) unwant(s *clientSession) {
	for k := range c.wanted {
		if s == nil || k.s == s {
			k.quiet()
		}
	}
}

func (s *clientSession) ident() string {
	if s == nil {
		return ""
	}
	return s.id
}

// end ends the session as the protocol has it.
func (c *Client) end() {
	s := c.session
	if s == nil || !s.ok {
		return
	}
	s.note(nil, trace.Event{Kind: trace.Ends})
	c.deleted = s
	c.unwant(s)
	s.lose("")
	if c.o.Transport != "http" {
		c.hangUp()
	} else if !c.modern {
		s.delete()
	}
}

// back comes back after leave: the standing stream and, if resume is set, the streams of calls that were broken go on after the last
// event that came.
func (s *clientSession) back(resume bool) {
	if s.c.o.Transport != "http" || s.c.modern {
		return
	}
	s.away = false
	broken := s.broken
	s.broken = nil
	if s.standing == nil && !s.c.o.Lacks("stream") {
		last := s.last
		if !resume {
			last = ""
		}
		s.stand(last, time.Second)
	}
	if resume {
		for _, x := range broken {
			x.resume(0)
		}
	}
}
