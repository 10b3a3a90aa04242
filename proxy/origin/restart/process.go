package restart

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/tidwall/gjson"
	"go.uber.org/zap"

	"github.com/dragoman-proxy/dragoman/proxy/ops/host"
	"github.com/dragoman-proxy/dragoman/proxy/ops/report"
	"github.com/dragoman-proxy/dragoman/proxy/ops/telemetry"
	"github.com/dragoman-proxy/dragoman/proxy/origin/era"
	"github.com/dragoman-proxy/dragoman/proxy/pipes"
	"github.com/dragoman-proxy/dragoman/proxy/pipes/failures"
	"github.com/dragoman-proxy/dragoman/proxy/protocol/mcp"
	"github.com/dragoman-proxy/dragoman/proxy/transport/upstream"
	"github.com/dragoman-proxy/dragoman/translate/wire"
)

var (
	errRefusedFirst   = errors.New("the server refused the first request after its restart")
	errOtherTransport = errors.New("the server is now reached over another transport")
)

var errOtherRevision = errors.New("the server now speaks another revision")

// processState is the state of the process.
type processState uint8

const (
	processRuns    processState = iota
	processStarts               // another process is being started; messages to be sent wait
	processRecalls              // it runs, and is being sent what the old one knew; messages to be sent wait
	processGone                 // no other process will be started
)

// restart starts a process to replace one that has ended. It tries again until a process runs or
// the allowed number of attempts is used up.
func (r *Pipe) restart() error {
	r.mu.Lock()
	old, err := r.conn, r.why
	r.mu.Unlock()
	pipes.End(old, r.host.Log)
	for {
		wait := r.backoff.Wait()
		r.announce(err, wait)
		timer := time.NewTimer(wait)
		kick := r.kick
		if !r.remote {
			kick = nil
		}
		select {
		case <-timer.C:
		case <-kick:
			timer.Stop()
		case <-r.life.Done():
			timer.Stop()
			return r.giveUp(upstream.ErrClosed)
		}
		if err = r.start(); err == nil {
			r.began = time.Now()
			if r.remote {
				r.host.Log.Info("upstream session reopened")
			} else {
				r.host.Log.Info("upstream process restarted")
			}
			return nil
		}
		switch {
		case r.life.Err() != nil:
			return r.giveUp(upstream.ErrClosed)
		case errors.Is(err, errOtherRevision):
			r.eras.Forget() // the next session finds out the era again
			return r.giveUp(err)
		case r.remote && isRefusal(err), !r.backoff.Another(0):
			return r.giveUp(err)
		}
		r.failWaiting(err)
	}
}

// isRefusal reports whether a server over HTTP+SSE refuses to begin a session.
func isRefusal(err error) bool {
	status, ok := errors.AsType[*upstream.StatusError](err)
	return ok && isFinal(status) && status.Code != 404 || errors.Is(err, errRefusedFirst) || errors.Is(err, errOtherTransport)
}

// announce logs that there will be another attempt.
func (r *Pipe) announce(err error, wait time.Duration) {
	r.host.Report.Restarted()
	what, level := "upstream process restarts", zap.WarnLevel
	if r.remote {
		what = "upstream session reopens"
		if r.backoff.Tries > 1 {
			level = zap.DebugLevel // the server may be away for long
		}
	}
	r.host.Log.Log(level, what, zap.Error(err), zap.Duration("in", wait), zap.Int("attempt", r.backoff.Tries))
}

// failWaiting makes the messages that wait for a remote server fail: an attempt to reach it has failed.
func (r *Pipe) failWaiting(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.remote {
		r.why = err
		r.failed++
		close(r.ready)
		r.ready = make(chan struct{})
	}
}

// giveUp ends the attempts and returns the error that the session ends with.
func (r *Pipe) giveUp(why error) error {
	if why != upstream.ErrClosed {
		f := mcp.Fail(mcp.UpstreamLost, report.Reason(why))
		if r.remote {
			f.Text = "upstream session ended: " + report.Reason(why)
		}
		f.Err = why
		why = f
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.state, r.why = processGone, why
	close(r.ready)
	return why
}

// start starts a process and sends it what the previous one knew.
func (r *Pipe) start() (err error) {
	ctx, cancel := context.WithTimeout(r.life, r.host.Config().Upstream.HandshakeTimeout)
	defer cancel()
	r.mu.Lock()
	header := r.header
	r.mu.Unlock()
	if r.short {
		r.host.Log.Warn("the server is told less of its client than before: the client said more of itself in initialize than a session keeps", zap.Int("kept_of_each_part", mcp.MaxSelf))
	}
	hello := &upstream.Outgoing{Body: r.hello, Request: true, Header: header}
	span := telemetry.Ask(r.host.Draining, hello, r.version)
	defer func() { span.Done(err) }()
	b, err := r.connect(ctx, hello)
	if err != nil {
		return err
	}
	if b.Standing == nil {
		pipes.EndBegun(b, r.host.Log)
		return errOtherTransport
	}
	defer func() {
		if err != nil {
			b.Standing.Close()
			pipes.End(b.Conn, r.host.Log)
		}
	}()
	h := &pipes.Opening{Of: r.host, Begun: *b, ID: r.id, Header: header}
	m, err := h.Await(ctx, b.Standing)
	if err != nil {
		return err
	}
	if said := r.revisionIn(m); said != r.version {
		if m.Kind == wire.Error {
			return fmt.Errorf("%w: %.200s", errRefusedFirst, gjson.Get(wire.View(m.Error()), "message").String())
		}
		return fmt.Errorf("%w (%.32q, was %s)", errOtherRevision, said, r.version)
	}
	r.mu.Lock()
	again, own := r.memory.Replay()
	unkept, updates := r.memory.Unkept(), r.memory.Updates()
	r.mu.Unlock()
	reportUnkept(r.host, unkept)
	if r.remote {
		h.Early = append(h.Early, listChanges(m.Result())...)
	}
	h.Early = append(h.Early, updates...)
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.life.Err() != nil {
		return upstream.ErrClosed // Close did not see b: the deferred function closes it
	}
	r.early, r.own = h.Early, own
	r.conn, r.st, r.state = b.Conn, b.Standing, processRecalls
	r.host.Spawn(func() { r.recall(b.Conn, again, header) })
	return nil
}

// recall sends a new process what the old one knew, and then lets messages of the client go. Meanwhile Events reads what the
// process says: it may not read on before its own messages are read.
func (r *Pipe) recall(conn upstream.Conn, messages [][]byte, header []mcp.Header) {
	err := r.sendAll(conn, messages, header)
	if err != nil && r.remote && r.life.Err() == nil {
		r.refuse(conn, err) // a process that does not read ends by itself, or is stopped
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case r.conn != conn || r.state != processRecalls: // it has ended, which Events has noticed first
	case err == nil:
		r.state = processRuns
		close(r.ready)
	case r.life.Err() != nil:
		r.state, r.why = processGone, upstream.ErrClosed
		close(r.ready)
	}
}

func (r *Pipe) sendAll(conn upstream.Conn, messages [][]byte, header []mcp.Header) error {
	ctx := r.life
	if r.remote {
		limited, cancel := context.WithTimeout(r.life, r.host.Config().Upstream.HandshakeTimeout)
		defer cancel()
		ctx = limited
	}
	for _, message := range messages {
		if _, err := conn.Send(ctx, &upstream.Outgoing{Body: message, Header: header}); err != nil {
			return err
		}
	}
	return nil
}

// reportUnkept logs how many requests for subscriptions, of all sessions of the server, are not sent to it again.
func reportUnkept(h *host.Host, n int) {
	if n > 0 {
		h.Log.Warn("subscriptions are not restored: clients must subscribe again", zap.Int("requests", n))
	}
}

// revisionIn returns the revision that the response to hello names.
func (r *Pipe) revisionIn(m *wire.Message) string {
	if modern, _, _ := era.Named(gjson.Get(wire.View(m.Result()), "supportedVersions")); modern != nil && modern.Name == r.version {
		return r.version
	}
	return gjson.Get(wire.View(m.Result()), "protocolVersion").String()
}

// answersOwn reports whether a message is the response to a request that start has replayed.
func (r *Pipe) answersOwn(message []byte) bool {
	var m wire.Message
	if m.Scan(message, nil) != nil || !m.Kind.Response() || !r.own[string(m.ID())] {
		return false
	}
	delete(r.own, string(m.ID()))
	if m.Kind == wire.Error {
		r.host.Log.Warn("cannot restore the log level or a subscription", zap.String("error", failures.Line(string(m.Error()))))
	}
	return true
}

// refusalGrace is how long the stream of a session that the server has forgotten stays open for messages that are on their way to it.
const refusalGrace = 500 * time.Millisecond

// refuse notes that the server does not know the session of conn any more, and closes that session's
// stream. Messages that are on their way get their own refusal first, if it comes soon: the end of the stream would cut them off, and
// nothing would say that the server does not have them.
func (r *Pipe) refuse(conn upstream.Conn, err error) {
	r.mu.Lock()
	current := r.conn == conn && (r.state == processRuns || r.state == processRecalls)
	st := r.st
	var others chan struct{}
	if current {
		if r.state == processRuns {
			r.ready = make(chan struct{})
		}
		if r.sending > 0 {
			if r.sent == nil {
				r.sent = make(chan struct{})
			}
			others = r.sent
		}
		r.refused, r.state = fmt.Errorf("%w: %v", upstream.ErrLost, err), processStarts
	}
	r.mu.Unlock()
	if !current {
		return
	}
	if others != nil {
		select {
		case <-others:
		case <-time.After(refusalGrace):
		}
	}
	st.Close()
}
