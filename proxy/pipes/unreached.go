package pipes

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/dragoman-proxy/dragoman/proxy/protocol/mcp"
	"github.com/dragoman-proxy/dragoman/proxy/transport/upstream"
	"github.com/dragoman-proxy/dragoman/translate/wire"
)

// A server on a pipe may ask at any time, but a client over HTTP can be reached only while it has a stream open. Many servers ping
// their client and end themselves if no answer comes, so that dragoman answers pings in the place of a client that cannot be
// reached; all else waits a little for a stream.

// UnreachedTime is how long a request of the server waits for a stream of its client before it is refused.
const UnreachedTime = 10 * time.Second

// unreached is a request of the server that waits for a stream of its client.
type unreached struct {
	message []byte // as it is in Streams.waiting
	refusal []byte // the response, if no stream is opened in time
	until   time.Time
}

// WithoutStanding says that no client ever opens a standing stream: nothing waits for one.
func (l *Streams) WithoutStanding() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.alone = true
}

// ask gives a request of the server to its client, m as the client gets it in raw. If the client cannot be reached, or does not
// read what it was sent, ask answers a ping at once. Called with l.mu held.
func (l *Streams) ask(m *wire.Message, raw []byte) {
	to, here := l.reached()
	switch {
	case here && l.give(to, raw):
	case m.Method == wire.Ping:
		l.reply(mcp.AppendResult(nil, m.ID(), "{}"))
	case here:
		l.reply(refusal(m.ID(), "the client does not read what it is asked"))
	case to != nil && l.give(to, raw): // its client may resume the stream
	case !l.alone && l.keepsWaiting(raw):
		l.wait(raw, m.ID())
	default:
		l.reply(refusal(m.ID(), unreachedText))
	}
}

const unreachedText = "the client cannot be reached: it has no stream open on which it could be asked"

// refusal returns the error response to a request of the server.
func refusal(id []byte, why string) []byte {
	return mcp.AppendError(nil, id, mcp.CodeInternal, why, nil)
}

// reached returns the stream on which the client is to be asked: the standing one, or that of the latest request. If here is
// false, the client does not read it, but may resume it. Called with l.mu held.
func (l *Streams) reached() (to *Stream, here bool) {
	if l.standing != nil {
		return l.standing, true
	}
	for _, s := range slices.Backward(l.order) {
		if !s.away {
			return s, true
		}
		if to == nil {
			to = s
		}
	}
	return to, false
}

// give offers a request of the server to the client that reads a stream. Called with l.mu held.
func (l *Streams) give(to *Stream, raw []byte) bool {
	dropped, ok := to.offer(raw)
	l.drops(dropped)
	return ok
}

// keepsWaiting makes a request of the server wait for a stream, if there is room for it. Called with l.mu held.
func (l *Streams) keepsWaiting(raw []byte) bool {
	dropped, ok := l.waiting.offer(raw)
	l.drops(dropped)
	return ok
}

// isAboutQuestion reports whether a notification of the server is about a request of it: that is cancelled, or its page was opened.
func isAboutQuestion(method wire.Method) bool {
	return method == wire.Cancelled || method == wire.ElicitationCompleted
}

// follow gives the client what is about a request of the server, on a stream on which ask would give it the request. Called with l.mu held.
func (l *Streams) follow(raw []byte) {
	if to, _ := l.reached(); to != nil {
		l.drops(to.Put(raw, false))
		return
	}
	l.drops(l.waiting.Put(raw, false))
}

// drops notes that this many notifications were dropped for others.
func (l *Streams) drops(n int) {
	for range n {
		l.owner.Dropped("queue_full")
	}
}

// Rest says that the client of a call has left, and may resume the stream: Move gives the stream another reader.
func (l *Streams) Rest(s *Stream) {
	l.mu.Lock()
	defer l.mu.Unlock()
	s.away = true
	l.handOn(l.unread(s))
}

// unread removes and returns the requests of the server that the client has not read on s. Those of a process that has ended it drops.
// Called with l.mu held.
func (l *Streams) unread(s *Stream) [][]byte {
	asked := s.questions()
	if s.process != l.process {
		return nil
	}
	return asked
}

// wait refuses a request of the server, which is in l.waiting, unless a stream takes it in time. Called with l.mu held.
func (l *Streams) wait(raw, id []byte) {
	if l.err != nil {
		return
	}
	l.unreached = append(l.unreached, unreached{raw, refusal(id, unreachedText), time.Now().Add(l.patience)})
	if len(l.unreached) == 1 {
		l.late = time.AfterFunc(l.patience, l.refuse)
	}
}

// refuse refuses the requests of the server that have waited too long.
func (l *Streams) refuse() {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := time.Now()
	for len(l.unreached) > 0 {
		u := l.unreached[0]
		if wait := u.until.Sub(now); wait > 0 {
			l.late.Reset(wait)
			return
		}
		l.unreached[0] = unreached{}
		l.unreached = l.unreached[1:]
		if l.waiting.remove(u.message) {
			l.reply(u.refusal)
		}
	}
}

// forgetUnreached drops the requests of the server that wait, since it has ended. Called with l.mu held.
func (l *Streams) forgetUnreached() {
	l.waiting.questions()
	open := l.order
	if l.standing != nil {
		open = append(slices.Clone(open), l.standing)
	}
	for _, s := range open {
		s.questions()
		s.process = l.process // from here on it has those of the next one
	}
	l.unreached = nil
	if l.late != nil {
		l.late.Stop()
	}
}

// handOn gives the requests of the server that no client has read to another stream. Called with l.mu held, after the stream that
// had them was removed from the tables.
func (l *Streams) handOn(requests [][]byte) {
	for _, raw := range requests {
		var m wire.Message
		if l.err == nil && m.Scan(raw, nil) == nil && m.Kind == wire.Request {
			l.ask(&m, raw)
		}
	}
}

// reply sends the server a response of dragoman's own. It does not wait.
func (l *Streams) reply(response []byte) {
	if !l.replies.Put(l.owner, l.conn, response, l.header) {
		l.owner.Dropped("queue_full")
	}
}

// replyTime bounds how long a response of dragoman's own may take to be sent.
const replyTime = 10 * time.Second

// maxReplies bounds the bytes of the responses of dragoman's own that wait for a server to read them.
const maxReplies = 1 << 20

// Replies are responses of dragoman's own to requests of a server. The goroutine that reads the server's messages must not wait
// until the server reads them: the server may wait for that goroutine.
type Replies struct {
	mu      sync.Mutex
	waiting []upstream.Outgoing
	bytes   int
	busy    bool
}

// Put sends a response, which belongs to r from now on, after those before. It does not wait, and returns false if too much waits
// already.
func (r *Replies) Put(o Owner, on upstream.Conn, response []byte, header []mcp.Header) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.bytes > 0 && r.bytes+len(response) > maxReplies {
		return false
	}
	r.bytes += len(response)
	r.waiting = append(r.waiting, upstream.Outgoing{Body: response, Header: header, Ours: true})
	if !r.busy {
		r.busy = true
		o.Spawn(func() { r.send(o, on) })
	}
	return true
}

// send sends what waits.
func (r *Replies) send(o Owner, on upstream.Conn) {
	for {
		r.mu.Lock()
		if len(r.waiting) == 0 {
			r.busy, r.waiting = false, nil
			r.mu.Unlock()
			return
		}
		out := r.waiting[0]
		r.waiting[0] = upstream.Outgoing{}
		r.waiting = r.waiting[1:]
		r.mu.Unlock()
		ctx, cancel := context.WithTimeout(context.Background(), replyTime)
		st, err := on.Send(ctx, &out)
		if err != nil && ctx.Err() != nil {
			o.Dropped("queue_full") // otherwise the server is gone, and its stream says so
		}
		cancel()
		if st != nil {
			st.Close()
		}
		r.mu.Lock()
		r.bytes -= len(out.Body)
		r.mu.Unlock()
	}
}
