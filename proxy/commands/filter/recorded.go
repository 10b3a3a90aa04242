package filter

import (
	"bytes"
	"errors"
	"fmt"

	"github.com/tidwall/gjson"

	"github.com/dragoman-proxy/dragoman/proxy/observe/recording"
	"github.com/dragoman-proxy/dragoman/proxy/protocol/mcp"
	"github.com/dragoman-proxy/dragoman/translate"
	"github.com/dragoman-proxy/dragoman/translate/wire"
)

// maxRecordedSessions bounds how many sessions of a recording are read at once.
const maxRecordedSessions = 100_000

// takeRecorded takes a line of a recording. It translates the messages that came to dragoman at the edge. What dragoman
// sent there, and what came to the other edge, tells to which request a response belongs.
func (r *filterRun) takeRecorded(line []byte) error {
	l, ok := recording.Parse(line)
	if !ok {
		return r.fail("", "", errors.New("not a line of a recording"))
	}
	s := r.recorded[l.Session]
	if s == nil {
		if len(r.recorded) == maxRecordedSessions {
			return r.fail("", "", errors.New("too many sessions"))
		}
		s = &recordedSession{revisions: map[string]*translate.Revision{}, facts: ^wire.Facts(0), asked: requests{}, notes: map[noteKey][][]byte{}}
		r.recorded[l.Session] = s
	}
	switch l.Kind {
	case recording.Open:
		if l.Peers != nil {
			s.learn(recording.ClientEdge, l.Peers.ClientRev)
			s.learn(recording.ServerEdge, l.Peers.ServerRev)
		}
		if facts, known := r.declared[l.Call]; known {
			s.facts = facts
		}
	case recording.Close:
		delete(r.recorded, l.Session)
	case recording.Gap:
		return r.note(note{Error: fmt.Sprintf("%d events are not in the recording", l.Dropped)})
	case recording.Message:
		s.learn(l.Edge, l.Rev)
		return r.takeMessage(s, &l)
	}
	return nil
}

// takeMessage takes a message of a recording.
func (r *filterRun) takeMessage(s *recordedSession, l *recording.Line) error {
	by, other := FromClient, recording.ServerEdge
	if l.Direction == recording.ServerToClient {
		by = FromServer
	}
	if r.Edge == recording.ServerEdge {
		other = recording.ClientEdge
	}
	came := (l.Edge == recording.ClientEdge) == (by == FromClient)
	from, to := r.From, r.To
	if from == nil {
		from = s.revisions[r.Edge]
	}
	if to == nil {
		to = s.revisions[other]
	}
	text := string(l.Kind)
	switch {
	case len(l.Payload) == 0 && came && l.Edge == r.Edge:
		return r.fail(text, l.Method, fmt.Errorf("message %d: only the beginning of its %d bytes is in the recording", l.Seq, l.Size))
	case len(l.Payload) == 0:
		return nil
	case from == nil || to == nil:
		if !came || l.Edge != r.Edge || isHandshake(l.Method) {
			return r.context(s, l, nil, by, came)
		}
		return r.fail(text, l.Method, fmt.Errorf("message %d: the recording does not say both revisions of its session: give --from and --to", l.Seq))
	case l.Edge == r.Edge && came:
		r.tr, r.asked, r.facts = r.table.Between(from, to), s.asked, s.facts
		err := r.takePlain(l.Payload, by)
		s.facts = r.facts
		return err
	}
	return r.context(s, l, r.table.Between(to, from), by, came)
}

// isHandshake reports whether a message may come before the revisions are known.
func isHandshake(method string) bool {
	return method == wire.Initialize.String() || method == wire.ServerDiscover.String()
}

// context learns from a message that is not to be translated. back translates those of the other edge; it is nil if it is not
// known yet.
func (r *filterRun) context(s *recordedSession, l *recording.Line, back *translate.Translator, by Sender, came bool) error {
	elements := [][]byte{l.Payload}
	if wire.IsArray(l.Payload) {
		var err error
		if elements, err = wire.AppendElements(nil, l.Payload, len(l.Payload)); err != nil {
			return r.fail("", l.Method, err)
		}
	}
	for _, raw := range elements {
		m := wire.Message{Facts: s.facts}
		var shape *wire.Shape
		if back != nil {
			shape = back.Shape()
		}
		if m.Scan(bytes.Clone(raw), shape) != nil {
			continue // the other edge has no use for it
		}
		if m.Kind == wire.Request && m.Method == wire.Initialize && by == FromClient && l.Edge == recording.ClientEdge {
			s.facts = mcp.ClientFacts(gjson.GetBytes(m.Params(), "capabilities"))
			if len(r.declared) >= maxRecordedSessions {
				clear(r.declared)
			}
			r.declared[l.Call] = s.facts
		}
		key := noteKey{l.Call, m.Method}
		switch {
		case l.Edge != r.Edge && came && m.Kind == wire.Request && back != nil && len(s.notes) < maxOpen:
			if _, _, err := back.Rewrite(nil, &m); err == nil {
				s.notes[key] = append(s.notes[key], bytes.Clone(m.Note))
			}
		case l.Edge != r.Edge:
		case m.Kind == wire.Request:
			q := &request{method: m.Method}
			if notes := s.notes[key]; len(notes) > 0 {
				q.note = notes[0]
				if s.notes[key] = notes[1:]; len(notes) == 1 {
					delete(s.notes, key)
				}
			}
			if err := s.asked.of(by).add(m.ID(), q); err != nil {
				return r.fail(m.Kind.String(), m.Method.String(), err)
			}
		case m.Kind.Response():
			s.asked.of(other(by)).take(m.ID())
		}
	}
	return nil
}

func other(by Sender) Sender {
	if by == FromClient {
		return FromServer
	}
	return FromClient
}
