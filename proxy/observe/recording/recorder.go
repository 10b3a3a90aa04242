package recording

import (
	"encoding/json"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/dragoman-proxy/dragoman/proxy/observe"
	"github.com/dragoman-proxy/dragoman/proxy/redact"
	"github.com/dragoman-proxy/dragoman/translate"
	"github.com/dragoman-proxy/dragoman/translate/wire"
)

// Recorder writes what is observed, without secrets.
type Recorder struct {
	name   string
	redact func() *redact.Redactor
	failed func(error)

	detach func()
	ended  atomic.Bool

	// Of the goroutine that reads what is observed:
	out   *Writer                  // nil if the recording has ended
	peers map[string]observe.Peers // what the file says of each session
}

// maxSessions bounds how many sessions are remembered. What the file says of others is said again.
const maxSessions = 10_000

// closeFor is how long Close waits for the disk.
const closeFor = 500 * time.Millisecond

// Start creates a recording and records what o observes from now on. current returns the Redactor in force. failed is called
// once if the recording ends before Close, such as when the disk is full; nothing else ends then.
func Start(o *observe.Observer, options Options, current func() *redact.Redactor, failed func(error)) (*Recorder, error) {
	w, err := Create(options)
	if err != nil {
		return nil, err
	}
	r := &Recorder{name: options.File, redact: current, failed: failed, out: w, peers: map[string]observe.Peers{}}
	r.detach = o.Attach("record", r)
	return r, nil
}

// Close writes what waits, for half a second at most.
func (r *Recorder) Close() error { return r.close(closeFor) }

func (r *Recorder) close(within time.Duration) error {
	done := make(chan error, 1)
	go func() {
		r.detach()
		if r.out == nil {
			done <- nil
			return
		}
		done <- r.out.Close()
	}()
	select {
	case err := <-done:
		return err
	case <-time.After(within):
		return fmt.Errorf("%s: the disk takes too long: the last events are not recorded", r.name)
	}
}

// Ended reports whether the recording has ended before Close.
func (r *Recorder) Ended() bool { return r.ended.Load() }

// put writes a line, unless the recording has ended.
func (r *Recorder) put(l *Line) {
	if r.out == nil {
		return
	}
	if err := r.out.Write(l); err != nil {
		r.fail(err)
	}
}

func (r *Recorder) fail(err error) {
	_ = r.out.Close() // it is lost anyway
	r.out = nil
	r.ended.Store(true)
	if r.failed != nil {
		r.failed(fmt.Errorf("%s: %w", r.name, err))
	}
}

// shown calls f with the Redactor in force. If f panics, the line shows nothing of its event; the recording goes on.
func (r *Recorder) shown(l *Line, f func(*redact.Redactor)) {
	defer func() {
		if recover() != nil {
			*l = Line{Kind: l.Kind, Seq: l.Seq, TS: l.TS, Call: l.Call, Text: "[not shown: reading it failed]"}
		}
		r.put(l)
	}()
	f(r.redact())
}

// Message implements [observe.Reader].
func (r *Recorder) Message(m *observe.Message) {
	if r.out == nil {
		return
	}
	r.introduce(&m.Call.Peers, m.At)
	l := Line{
		Kind: Message, Seq: m.Seq, TS: m.At, Edge: m.Edge.String(), Direction: m.Direction.String(), Transport: m.Transport(), Rev: m.Revision(),
		Session: m.Call.Peers.Session, Call: m.Call.N, Size: m.Size, SHA256: m.SHA256, HTTP: m.Status, Timing: timing(m.Timing),
	}
	if m.From != nil {
		l.From = m.From.Seq
	}
	r.shown(&l, func(safe *redact.Redactor) {
		l.Method, l.Tool = safe.Text(m.Method), safe.Text(m.Call.Tool)
		for _, h := range m.Header {
			if value, ok := safe.Header(h.Name, h.Value); ok {
				if l.Headers == nil {
					l.Headers = map[string]string{}
				}
				l.Headers[h.Name] = value
			}
		}
		switch {
		case m.Cut:
			l.Text = safe.Cut(string(m.Raw))
		case m.Kind == 0 && !wire.Valid(m.Raw):
			l.Text = safe.Text(string(m.Raw))
		default:
			l.Payload = safe.Payload(m.Method, m.Call.Tool, m.Raw)
		}
		l.Losses = losses(m.Losses)
		if m.From != nil {
			l.Changes = changes(m.From, safe)
		}
	})
}

// changes returns why a message leaves in another form than it came, as JSON; nil if it does not.
func changes(m *observe.Message, safe *redact.Redactor) json.RawMessage {
	e, err := m.Explain()
	if err != nil || len(e.Changes) == 0 {
		return nil
	}
	list := make([]translate.Change, len(e.Changes))
	for i, c := range e.Changes {
		c.Before, c.After = safe.Text(c.Before), safe.Text(c.After) // names in a path may be secrets
		list[i] = c
	}
	text, err := json.Marshal(list)
	if err != nil {
		return nil
	}
	return text
}

// Loss is what a rule removed from a message.
type Loss struct {
	Rule  string `json:"rule"`
	What  string `json:"what"`
	Count int    `json:"count"`
}

func losses(all []wire.Loss) json.RawMessage {
	if len(all) == 0 {
		return nil
	}
	list := make([]Loss, len(all))
	for i, l := range all {
		list[i] = Loss{l.Rule, l.What, l.Count}
	}
	text, err := json.Marshal(list)
	if err != nil {
		return nil
	}
	return text
}

func timing(t *observe.Timing) *Timing {
	if t == nil {
		return nil
	}
	ms := func(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }
	return &Timing{ms(t.Client), ms(t.Proxy), ms(t.Server)}
}

// introduce writes who talks in a session, if the file does not say so yet.
func (r *Recorder) introduce(p *observe.Peers, at time.Time) {
	if was, known := r.peers[p.Session]; known && was == *p {
		return
	}
	if len(r.peers) >= maxSessions {
		clear(r.peers)
	}
	r.peers[p.Session] = *p
	l := Line{Kind: Open, TS: at, Session: p.Session, Peers: &Peers{
		Principal: p.Principal, ClientRev: p.ClientRevision, ClientTransport: p.ClientTransport,
		ServerRev: p.ServerRevision, ServerTransport: p.ServerTransport, Bridged: p.Bridged,
	}}
	r.shown(&l, func(safe *redact.Redactor) { l.Peers.Client, l.Peers.Server = safe.Text(p.Client), safe.Text(p.Server) })
}

// Note implements [observe.Reader].
func (r *Recorder) Note(n *observe.Note) {
	l := Line{Kind: Note, TS: n.At, Session: n.Call.Peers.Session, Call: n.Call.N}
	r.shown(&l, func(safe *redact.Redactor) {
		l.Did = &Did{By: n.By, What: safe.Text(n.What), Path: safe.Text(n.Path), Detail: safe.Text(n.Detail), TokensBefore: n.TokensBefore, TokensAfter: n.TokensAfter}
	})
}

// End implements [observe.Reader].
func (r *Recorder) End(e *observe.End) {
	r.put(&Line{Kind: End, TS: e.At, Session: e.Call.Peers.Session, Call: e.Call.N, Status: e.Status, Cause: e.Cause, Timing: timing(&e.Timing)})
}

// Session implements [observe.Reader].
func (r *Recorder) Session(s *observe.Session) {
	if !s.Ended {
		r.introduce(&s.Peers, s.At)
		return
	}
	delete(r.peers, s.Peers.Session)
	l := Line{Kind: Close, TS: s.At, Session: s.Peers.Session}
	r.shown(&l, func(safe *redact.Redactor) { l.Cause = safe.Text(s.Why) })
}

// Stderr implements [observe.Reader].
func (r *Recorder) Stderr(s *observe.Stderr) {
	l := Line{Kind: Stderr, TS: s.At}
	r.shown(&l, func(safe *redact.Redactor) { l.Text = safe.Text(s.Text) })
}

// Gap implements [observe.Reader].
func (r *Recorder) Gap(dropped uint64) { r.put(&Line{Kind: Gap, TS: time.Now(), Dropped: dropped}) }
