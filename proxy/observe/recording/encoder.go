package recording

import (
	"encoding/json"
	"time"

	"github.com/dragoman-proxy/dragoman/proxy/observe"
	"github.com/dragoman-proxy/dragoman/translate"
	"github.com/dragoman-proxy/dragoman/translate/wire"
)

// Encoder makes lines of what is observed, without secrets. It is an [observe.Reader].
type Encoder struct {
	redact func() observe.Redactor
	put    func(*Line)
	peers  map[string]observe.Peers // what the lines say of each session
}

// maxSessions bounds how many sessions are remembered. What the lines say of others is said again.
const maxSessions = 10_000

// NewEncoder returns an Encoder that gives each line to put, which may keep nothing of it. current returns the Redactor in
// force.
func NewEncoder(current func() observe.Redactor, put func(*Line)) *Encoder {
	return &Encoder{current, put, map[string]observe.Peers{}}
}

// shown calls f with the Redactor in force. If f panics, the line shows nothing of its event; the next line follows.
func (e *Encoder) shown(l *Line, f func(observe.Redactor)) {
	defer func() {
		if recover() != nil {
			*l = Line{Kind: l.Kind, Seq: l.Seq, TS: l.TS, Call: l.Call, Text: "[not shown: reading it failed]"}
		}
		e.put(l)
	}()
	f(e.redact())
}

// Message implements [observe.Reader].
func (e *Encoder) Message(m *observe.Message) {
	p := m.Call.Peers
	e.introduce(p, m.At, 0)
	l := Line{
		Kind: Message, Seq: m.Seq, TS: m.At, Edge: m.Edge.String(), Direction: m.Direction.String(), Transport: m.Transport(), Rev: m.Revision(),
		Session: p.Session, Call: m.Call.N, Size: m.Size, SHA256: m.SHA256, Cut: m.Cut && m.SHA256 == "", HTTP: m.Status, Timing: timing(m.Timing),
	}
	if m.From != nil {
		l.From = m.From.Seq
	}
	e.shown(&l, func(safe observe.Redactor) {
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
			l.Text = safe.Cut(m.Method, m.Call.Tool, m.Raw)
		case m.Kind == 0 && !wire.Valid(m.Raw):
			l.Text = safe.Text(string(m.Raw))
		default:
			l.Payload = safe.Payload(m.Method, m.Call.Tool, m.Raw)
		}
		l.Losses = losses(m.Losses)
		if m.From != nil {
			l.Changes = changes(m, safe)
		}
	})
}

// changes returns why a message leaves in another form than it came, as JSON; nil if it does not.
func changes(m *observe.Message, safe observe.Redactor) json.RawMessage {
	why, err := m.Explain()
	if err != nil || len(why.Changes) == 0 {
		return nil
	}
	list := make([]translate.Change, len(why.Changes))
	for i, c := range why.Changes {
		c.Before, c.After = safe.Text(c.Before), safe.Text(c.After) // names in a path may be secrets
		list[i] = c
	}
	return asJSON(list)
}

// Loss is what a rule changed in a message, at so many places.
type Loss struct {
	Rule  string `json:"rule"`
	What  string `json:"what"`
	Count int    `json:"count"`
	// Lost is at how many of the places the receiver misses something. Recordings of older programs do not say it.
	Lost *int `json:"lost"`
}

func losses(all []wire.Loss) json.RawMessage {
	var list []Loss
	for i := range all {
		if l := &all[i]; l.Level != wire.Assumed {
			list = append(list, Loss{l.Rule, l.What, l.Count, &l.Lost})
		}
	}
	if list == nil {
		return nil
	}
	return asJSON(list)
}

func timing(t *observe.Timing) *Timing {
	if t == nil {
		return nil
	}
	ms := func(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }
	return &Timing{ms(t.Client), ms(t.Proxy), ms(t.Server)}
}

// introduce writes who talks in a session, if the lines do not say so yet. began is the call that it began with, or 0.
func (e *Encoder) introduce(p *observe.Peers, at time.Time, began uint64) {
	if was, known := e.peers[p.Session]; known && was == *p && began == 0 {
		return
	}
	if len(e.peers) >= maxSessions {
		clear(e.peers)
	}
	e.peers[p.Session] = *p
	l := Line{Kind: Open, TS: at, Session: p.Session, Call: began, Peers: &Peers{
		Principal: p.Principal, ClientRev: p.ClientRevision, ClientTransport: p.ClientTransport,
		ServerRev: p.ServerRevision, ServerTransport: p.ServerTransport, Bridged: p.Bridged,
	}}
	e.shown(&l, func(safe observe.Redactor) { l.Peers.Client, l.Peers.Server = safe.Text(p.Client), safe.Text(p.Server) })
}

// Note implements [observe.Reader].
func (e *Encoder) Note(n *observe.Note) {
	l := Line{Kind: Note, TS: n.At, Session: n.Call.Peers.Session, Call: n.Call.N}
	e.shown(&l, func(safe observe.Redactor) {
		l.Did = &Did{By: n.By, What: safe.Text(n.What), Path: safe.Text(n.Path), Detail: safe.Text(n.Detail), To: n.To.String(), TokensBefore: n.TokensBefore, TokensAfter: n.TokensAfter}
	})
}

// End implements [observe.Reader].
func (e *Encoder) End(n *observe.End) {
	e.introduce(n.Call.Peers, n.At, 0)
	l := Line{Kind: End, TS: n.At, Session: n.Call.Peers.Session, Call: n.Call.N, Status: n.Status, Cause: n.Cause, Timing: timing(&n.Timing)}
	e.shown(&l, func(safe observe.Redactor) { l.Method, l.Tool = safe.Text(n.Call.Method), safe.Text(n.Call.Tool) })
}

// Session implements [observe.Reader].
func (e *Encoder) Session(s *observe.Session) {
	if !s.Ended {
		var began uint64
		if s.Call != nil {
			began = s.Call.N
		}
		e.introduce(&s.Peers, s.At, began)
		return
	}
	delete(e.peers, s.Peers.Session)
	l := Line{Kind: Close, TS: s.At, Session: s.Peers.Session}
	e.shown(&l, func(safe observe.Redactor) { l.Cause = safe.Text(s.Why) })
}

// Stderr implements [observe.Reader].
func (e *Encoder) Stderr(s *observe.Stderr) {
	l := Line{Kind: Stderr, TS: s.At}
	e.shown(&l, func(safe observe.Redactor) { l.Text = safe.Text(s.Text) })
}

// Gap implements [observe.Reader].
func (e *Encoder) Gap(dropped uint64) { e.put(&Line{Kind: Gap, TS: time.Now(), Dropped: dropped}) }
