package peers

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/dragoman-proxy/dragoman/bench/simulate/trace"
)

var (
	errKilled = errors.New("signal: killed")
	errDied   = errors.New("exit status 1")
)

// serverProcess is a process of a server on pipes.
type serverProcess struct {
	s        *Server
	sess     *serverSession
	in       io.Reader
	out, err io.WriteCloser
	box      *outbox
	quit     chan struct{}
	over     bool
	cause    error
	ended    chan struct{}
}

// Process begins a process for a process of dragoman, which ends at the end of in. It closes in too, if that can be closed, and should then let go of a Read. wait
// returns when it has ended; kill ends it at once.
func (s *Server) Process(of string, in io.Reader, out, err io.WriteCloser) (wait func() error, kill func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := &serverProcess{s: s, in: in, out: out, err: err, quit: make(chan struct{}), ended: make(chan struct{})}
	name := fmt.Sprint("server.", s.next("process"))
	p.sess = s.newSession(name, name)
	p.sess.process = p
	p.box = newOutbox(out, func(error) {
		out.Close()
		if in, ok := in.(io.Closer); ok {
			in.Close()
		}
	})
	p.sess.pipe = &serverStream{box: p.box, process: p}
	s.tell(trace.Event{Who: name, Kind: trace.Started, Via: of})
	if s.processes, s.sessions = append(s.processes, p), append(s.sessions, p.sess); s.closed {
		p.end(errKilled, true)
	}
	s.running.Add(1)
	go p.run()
	return func() error { <-p.ended; return p.cause }, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		p.end(errKilled, true)
	}
}

func (p *serverProcess) run() {
	s := p.s
	defer s.running.Done()
	defer close(p.ended)
	r := bufio.NewReader(&serverReader{s: s, r: p.in, quit: p.quit})
	for {
		line, err := readLine(r)
		s.mu.Lock()
		over := p.over
		if !over && err == nil {
			p.line(line)
		}
		if !over && err != nil {
			if len(line) > 0 && err == io.EOF {
				p.sess.strange("the input ends within a line", append([]byte(nil), line...))
			}
			s.tell(trace.Event{Who: p.sess.who, Kind: trace.Gone, Session: p.sess.id})
			p.end(nil, false)
		}
		over = p.over
		s.mu.Unlock()
		if over {
			break
		}
	}
	<-p.box.ended
	s.mu.Lock()
	s.processes = slices.DeleteFunc(s.processes, func(of *serverProcess) bool { return of == p })
	s.mu.Unlock()
	if p.err != nil {
		p.err.Close()
	}
}

// end ends a process; now means that what it has not written yet is lost.
func (p *serverProcess) end(cause error, now bool) {
	if now && p.over {
		p.out.Close() // it may hang in its last words
	}
	if p.over {
		return
	}
	p.over, p.cause = true, cause
	close(p.quit)
	e := trace.Event{Who: p.sess.who, Kind: trace.Died, Session: p.sess.id}
	if cause != nil {
		e.Failed = cause.Error()
	}
	p.s.tell(e)
	p.sess.end()
	p.box.close()
	if now {
		p.out.Close()
	}
}

// line takes a line.
func (p *serverProcess) line(line []byte) {
	all, batch, err := readMessages(line)
	if err != nil || batch {
		p.sess.strange(fmt.Sprintf("a line that is not one message: %v", err), append([]byte(nil), line...))
		return
	}
	m := all[0]
	if !m.request() {
		p.s.message(p.sess, m, p.sess.pipe, nil)
		return
	}
	c := newServerCall(p.sess, m, p.sess.pipe, nil)
	asks := c.meta() != "" && !isHandshake(c.meta()) // it is of 2026-07-28
	switch {
	case p.s.modern() && asks && c.meta() != modernRevision, !p.s.handshake() && m.Method == "initialize":
		c.refuseRevision(c.params.ProtocolVersion + c.meta())
		return
	case p.s.modern() && (asks || !p.s.handshake()):
		if c.modern = true; c.params.Meta.Version == nil || c.params.Meta.Capabilities == nil {
			p.sess.strange("_meta has no protocolVersion or no clientCapabilities", m.raw)
		}
	}
	p.s.request(c)
}
