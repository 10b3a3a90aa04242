package session

import (
	"context"

	"github.com/dragoman-proxy/dragoman/proxy/features/replay"
	"github.com/dragoman-proxy/dragoman/proxy/pipes"
)

// Lanes is the connection to a server on a pipe, with one stream for each request, which an HTTP
// client may resume.
type Lanes struct {
	*pipes.Streams
	Trails *replay.Buffers[*ResumableCall]
}

// ResumableCall is a call whose stream a client may resume. It implements [replay.Call].
type ResumableCall struct {
	Call   *Call
	Open   *Calls
	Stream *pipes.Stream // the server's stream for the call
}

// Cancelled reports whether the call was cancelled.
func (c *ResumableCall) Cancelled() bool { return c.Call.Cancelled.Load() }

// End ends the call, which its client has left, and closes its stream.
func (c *ResumableCall) End() {
	c.Call.More.Leaving.Left()
	c.Open.End(c.Call)
	c.Stream.Close()
}

// Close stops the server process and discards the events kept for replay.
func (l *Lanes) Close(ctx context.Context) error {
	err := l.Streams.Close(ctx)
	l.Trails.Close()
	return err
}

// OverLanes makes l the connection of s.
func (s *Session) OverLanes(l *Lanes) { s.Conn, s.Recall, s.Lanes = l, l.Recall, l }

// Process is a connection to a process of the server.
type Process interface {
	WhenLost(do func()) // sets what to do when the process ends by itself and is not started again, or does that now
	Reason() error      // why it has ended; nil while it runs
}

// Process returns the connection to the server's process, with which a session of a client over HTTP ends; nil if there is none.
func (s *Session) Process() Process {
	if s.Lanes != nil {
		return s.Lanes
	}
	if s.Bridge != nil {
		if p, is := s.Bridge.Beneath().(Process); is {
			return p
		}
	}
	return nil
}
