// Package pipe serves clients on a pipe: stdin and stdout ([Serve]), or HTTP+SSE ([SSE]).
//
// One goroutine handles a client's messages in order. If the server is on a pipe too, a second one writes all its messages to
// the client; over HTTP each request has a goroutine that reads its response.
//
// Each file uses those above it in this list:
//
//   - pipe.go has the client, and failures.go fails the calls of a server that is late or lost;
//   - forward.go begins the session, sends messages to the server, and the server's messages to the client;
//   - direct.go connects to a server of 2026-07-28, which needs no session;
//   - stdio.go reads messages from stdin, and serves requests of 2026-07-28; sse.go lets each message come in an HTTP request
//     of its own.
package pipe

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/dragoman-proxy/dragoman/proxy/bytes/sse"
	"github.com/dragoman-proxy/dragoman/proxy/ops/report"
	"github.com/dragoman-proxy/dragoman/proxy/pipes"
	"github.com/dragoman-proxy/dragoman/proxy/protocol/mcp"
	"github.com/dragoman-proxy/dragoman/proxy/session"
	"github.com/dragoman-proxy/dragoman/proxy/session/clients"
	"github.com/dragoman-proxy/dragoman/proxy/transport/downstream"
	"github.com/dragoman-proxy/dragoman/proxy/transport/upstream"
	"github.com/dragoman-proxy/dragoman/translate"
	"github.com/dragoman-proxy/dragoman/translate/wire"
)

var ErrUpstreamGone = errors.New("the session with the server has ended")

// pipe is a client on stdin and stdout, or on HTTP+SSE. One goroutine handles its messages in
// order, and sends them to the server in that order. If the server is on a pipe too, a second
// goroutine writes all messages of the server to the client, in order. Over HTTP, each request's
// response has a goroutine, and one more reads the standing stream.
type pipe struct {
	proxy   *clients.Proxy
	client  interface{ Write(message []byte) error }
	runsFor string // the client that its process is counted for
	ctx     context.Context
	fail    context.CancelCauseFunc
	tasks   sync.WaitGroup
	calls   sync.WaitGroup // those of tasks that answer a request each

	s       *session.Session                // nil before initialize
	begun   atomic.Pointer[session.Session] // the same as s, for other goroutines
	from    []mcp.Header                    // headers of the current message for the server; used only by the goroutine that handles messages
	shown   []mcp.Header                    // those of the same message that the observer keeps; nil if nothing observes, and on stdio
	first   []mcp.Header                    // headers of the message that began s, for log lines about calls
	sender  downstream.Sender               // of the current message
	listens bool                            // the standing stream was opened
	given   *pipes.Renumbered               // the connection to a server on a pipe, which gives requests other ids; nil for others
	waiting upstream.Waiting                // what waits for a server that is busy, while the client's next messages are read
	called  chan struct{}                   // wakes watch; nil if the server is not on a pipe

	modern sessionless  // nil if the client may not send such messages
	heard  atomic.Int64 // the time of the last message of a server on a pipe, in ns; deaf or deafSeen while it is written
}

// sessionless takes a client's messages that belong to no session.
type sessionless interface {
	// serve serves a request of 2026-07-28. It does not wait for the response.
	serve(m *wire.Message)
	// takes reports whether a notification belongs to such a request, and takes it then.
	takes(m *wire.Message) bool
}

// spawn runs a task in a goroutine that Serve waits for. A panic in the task ends p, but not
// the process.
func (p *pipe) spawn(task func()) {
	p.tasks.Go(func() {
		if !p.proxy.Host.Report.Contained(task) {
			p.fail(mcp.Fail(mcp.Panicked, ""))
		}
	})
}

// spawnCall is spawn for a task that answers a request.
func (p *pipe) spawnCall(task func()) {
	p.calls.Add(1)
	p.spawn(func() {
		defer p.calls.Done()
		task()
	})
}

// write sends one message to the client. If that fails, the pipe ends.
func (p *pipe) write(message []byte) {
	if err := p.client.Write(message); err != nil {
		p.fail(fmt.Errorf("client: %w", err))
	}
}

// refuse answers a message with an error. It has no message if that was too long to read.
func (p *pipe) refuse(err error, message []byte) {
	p.write(p.refusal(err, message).BodyTo(p.revision()))
}

// refusal reports that a message is refused, and returns the error for the client.
func (p *pipe) refusal(err error, message []byte) *mcp.Failure {
	known := clients.IsReported(err)
	f := onPipe(p.proxy.Host.Report.Failed(err, report.At{}))
	if !known {
		p.proxy.ObserveRefusal(message, p.revision(), p.proxy.PipeTransport(), f)
	}
	return f
}

// revision returns the client's revision, or nil before it is known.
func (p *pipe) revision() *translate.Revision {
	if p.s == nil {
		return nil
	}
	return p.s.ClientRevision
}

// deliver sends the client the response to a request, or adds it to a batch.
func (p *pipe) deliver(g *session.Batch, slot int, answer []byte) {
	if g == nil {
		p.write(answer)
		return
	}
	g.Put(slot, answer)
}

// Send implements [mcp.Peer].
func (p *pipe) Send(e sse.Event) error {
	if len(e.Data) > 0 {
		p.write(e.Data)
	}
	return nil
}

// untilAnswered waits until no call of the session is open. It returns false when the time is over or the pipe ends.
func (p *pipe) untilAnswered(over <-chan time.Time) bool {
	s := p.begun.Load()
	if s == nil {
		return true
	}
	select {
	case <-s.Open.Idle():
		return true
	case <-over:
	case <-p.ctx.Done():
	}
	return false
}

// onPipe adapts f for a client on a pipe: a modern request gets "Method not found", so that the
// client may try initialize.
func onPipe(f *mcp.Failure) *mcp.Failure {
	if f.Cause == mcp.ModernRefused {
		f.Code = mcp.CodeMethodNotFound
	}
	return f
}
