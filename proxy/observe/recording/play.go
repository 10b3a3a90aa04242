package recording

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"time"

	"github.com/tidwall/gjson"

	"github.com/dragoman-proxy/dragoman/proxy/observe"
	"github.com/dragoman-proxy/dragoman/proxy/protocol/mcp"
	"github.com/dragoman-proxy/dragoman/translate"
	"github.com/dragoman-proxy/dragoman/translate/wire"
)

// player makes events of the lines of a recording.
type player struct {
	to    observe.Reader
	peers map[string]observe.Peers
	calls map[uint64]*observe.Call
	seen  map[uint64]*observe.Message // by Seq
	held  []any                       // events that wait, because a later line says what became of a message among them
	open  map[uint64]bool             // the Seq of the messages in held
}

// maxHeld is how many events wait, and maxSeen how many messages are remembered.
const (
	maxHeld = 1024
	maxSeen = 20_000
)

// Play hands the events of a recording to a reader, as when they happened. skipped is how many lines could not be read.
func Play(from *Reader, to observe.Reader) (skipped int, err error) {
	p := &player{to: to, peers: map[string]observe.Peers{}, calls: map[uint64]*observe.Call{}, seen: map[uint64]*observe.Message{}, open: map[uint64]bool{}}
	defer p.release(0)
	for {
		l, err := from.Next()
		_, bad := errors.AsType[*LineError](err)
		switch {
		case errors.Is(err, io.EOF):
			return skipped, nil
		case bad:
			skipped++
			continue
		case err != nil:
			return skipped, err
		}
		p.line(&l)
	}
}

func (p *player) line(l *Line) {
	switch l.Kind {
	case Open:
		if l.Peers != nil {
			p.peers[l.Session] = l.Peers.observed(l.Session)
			p.hold(&observe.Session{At: l.TS, Peers: p.peers[l.Session], Call: p.calls[l.Call]})
		}
	case Close:
		p.hold(&observe.Session{At: l.TS, Ended: true, Peers: p.peers[l.Session], Why: l.Cause})
		delete(p.peers, l.Session)
	case Stderr:
		p.hold(&observe.Stderr{At: l.TS, Text: l.Text})
	case Gap:
		p.hold(l.Dropped)
	case Note:
		if d := l.Did; d != nil {
			p.hold(&observe.Note{Call: p.call(l), At: l.TS, By: d.By, What: d.What, Path: d.Path, Detail: d.Detail, To: directionOf(d.To), TokensBefore: d.TokensBefore, TokensAfter: d.TokensAfter})
		}
	case End:
		e := &observe.End{Call: p.call(l), At: l.TS, Status: l.Status, Cause: l.Cause}
		if t := l.Timing.observed(); t != nil {
			e.Timing = *t
		}
		p.hold(e)
	case Message:
		p.message(l)
	}
}

// call returns the call of a line. The first line about it says what call it is.
func (p *player) call(l *Line) *observe.Call {
	if c := p.calls[l.Call]; c != nil {
		return c
	}
	if len(p.calls) >= maxSessions {
		clear(p.calls)
	}
	peers := p.peers[l.Session]
	peers.Session = l.Session
	c := &observe.Call{N: l.Call, Began: l.TS, Peers: &peers, Head: observe.Head{Method: l.Method, Tool: l.Tool}}
	c.Server = l.Kind == Message && l.Edge == ServerEdge && l.Direction == ServerToClient
	var m wire.Message
	if m.Scan(l.Payload, nil) == nil {
		h := observe.HeadOf(&m)
		c.Kind, c.ID, c.Subject = h.Kind, h.ID, h.Subject
	}
	p.calls[l.Call] = c
	return c
}

func (p *player) message(l *Line) {
	m := &observe.Message{
		Seq: l.Seq, Call: p.call(l), At: l.TS, Edge: observe.ServerEdge, Method: l.Method, Status: l.HTTP,
		Copy: observe.Copy{Raw: l.Payload, Size: max(l.Size, len(l.Payload)), SHA256: l.SHA256}, Timing: l.Timing.observed(),
	}
	if l.Edge == ClientEdge {
		m.Edge = observe.ClientEdge
	}
	m.Direction = directionOf(l.Direction)
	if l.Rev != m.Call.Peers.Revision(m.Edge) {
		m.Rev = l.Rev
	}
	if l.Payload == nil {
		m.Raw, m.Cut = []byte(l.Text), l.SHA256 != "" || l.Cut
	}
	var w wire.Message
	if w.Scan(m.Raw, nil) == nil {
		m.Kind, m.ID = w.Kind, string(w.ID())
	} else if v := gjson.GetManyBytes(m.Raw, "method", "id"); m.Cut { // reads broken JSON as well
		switch m.ID = v[1].Raw; {
		case v[0].Exists() && v[1].Exists():
			m.Kind = wire.Request
		case v[0].Exists():
			m.Kind = wire.Notification
		default:
			m.Kind = wire.Result
		}
	}
	for name, value := range l.Headers {
		m.Header = append(m.Header, mcp.Header{Name: name, Value: value})
	}
	var lost []Loss
	if json.Unmarshal(l.Losses, &lost) == nil {
		for _, one := range lost {
			loss := wire.Loss{Rule: one.Rule, What: one.What, Count: one.Count}
			if one.Lost != nil {
				loss.Lost = min(*one.Lost, one.Count)
			}
			m.Losses = append(m.Losses, loss)
		}
	}
	if from := p.seen[l.From]; from != nil {
		m.From = from
		if m.Size == from.Size && m.SHA256 == from.SHA256 && !l.Cut && bytes.Equal(m.Raw, from.Raw) {
			m.Raw = from.Raw // one text at both edges
		}
		var list []translate.Change
		if p.open[l.From] && json.Unmarshal(l.Changes, &list) == nil && from.Recorded == nil {
			from.Recorded = list
		}
	}
	if len(p.seen) >= maxSeen {
		clear(p.seen)
	}
	p.seen[m.Seq] = m
	p.open[m.Seq] = true
	p.hold(m)
}

func directionOf(name string) observe.Direction {
	switch name {
	case ClientToServer:
		return observe.ToServer
	case ServerToClient:
		return observe.ToClient
	}
	return 0
}

func (p *player) hold(event any) {
	p.held = append(p.held, event)
	p.release(maxHeld)
}

// release hands over the events that wait, but for the newest.
func (p *player) release(newest int) {
	for len(p.held) > newest {
		switch e := p.held[0].(type) {
		case *observe.Message:
			delete(p.open, e.Seq)
			p.to.Message(e)
		case *observe.Note:
			p.to.Note(e)
		case *observe.End:
			p.to.End(e)
		case *observe.Session:
			p.to.Session(e)
		case *observe.Stderr:
			p.to.Stderr(e)
		case uint64:
			p.to.Gap(e)
		}
		p.held[0] = nil
		p.held = p.held[1:]
	}
}

func (p *Peers) observed(session string) observe.Peers {
	return observe.Peers{
		Session: session, Principal: p.Principal, Client: p.Client, ClientRevision: p.ClientRev, ClientTransport: p.ClientTransport,
		Server: p.Server, ServerRevision: p.ServerRev, ServerTransport: p.ServerTransport, Bridged: p.Bridged,
	}
}

func (t *Timing) observed() *observe.Timing {
	if t == nil {
		return nil
	}
	d := func(ms float64) time.Duration { return time.Duration(ms * float64(time.Millisecond)) }
	return &observe.Timing{Client: d(t.Client), Proxy: d(t.Proxy), Server: d(t.Server)}
}
