package filter

import (
	"bytes"
	"errors"
	"strings"

	"github.com/tidwall/gjson"

	"github.com/dragoman-proxy/dragoman/proxy/protocol/mcp"
	"github.com/dragoman-proxy/dragoman/translate"
	"github.com/dragoman-proxy/dragoman/translate/wire"
)

// takePlain translates a message, or an array of messages.
func (r *filterRun) takePlain(line []byte, by Sender) error {
	if !wire.IsArray(line) {
		return r.translate(line, by)
	}
	elements, err := wire.AppendElements(nil, line, len(line))
	if err != nil {
		return r.fail("", "", err)
	}
	defer func() { r.index = nil }()
	for i, element := range elements {
		r.index = &i
		if err := r.translate(bytes.Clone(element), by); err != nil {
			return err
		}
	}
	return nil
}

// answered returns the request that a response answers, or nil if there is none.
func (r *filterRun) answered(m *wire.Message, by Sender) *request {
	switch by {
	case FromClient:
		return r.asked.of(FromServer).take(m.ID())
	case FromServer:
		return r.asked.of(FromClient).take(m.ID())
	}
	return r.asked.of(AnySender).take(m.ID())
}

func (r *filterRun) translate(line []byte, by Sender) error {
	m := wire.Message{Trace: r.Report != ReportNone}
	if err := m.Scan(line, r.tr.Shape()); err != nil {
		return r.fail("", "", r.tr.ScanError(&m, err))
	}
	m.Facts = r.facts
	var q *request
	switch {
	case m.Kind == wire.Request:
		if m.Method == wire.Initialize {
			r.facts = mcp.ClientFacts(gjson.GetBytes(m.Params(), "capabilities"))
			m.Facts = r.facts
		}
		q = &request{method: m.Method}
		if err := r.asked.of(by).add(m.ID(), q); err != nil {
			return r.fail(m.Kind.String(), m.Method.String(), err)
		}
	case m.Kind.Response():
		switch asked := r.answered(&m, by); {
		case asked == nil:
			m.Classify()
		default:
			m.Method, m.Note = asked.method, asked.note
			if asked.here {
				if err := r.note(note{Kind: m.Kind.String(), Method: m.Method.String(), Verdict: answeredBefore}); err != nil {
					return err
				}
			}
		}
	}
	kind, method := m.Kind.String(), m.Method.String()
	var explanation translate.Explanation
	if r.Explain != ExplainNone { // before the message is translated in its own memory
		var err error
		if explanation, err = r.tr.Explain(line, translate.Known{Method: m.Method, Note: m.Note, Facts: m.Facts}); err != nil {
			return r.fail(kind, method, err)
		}
	}
	out, verdict, err := r.tr.Rewrite(nil, &m)
	if err != nil {
		return r.fail(kind, method, err)
	}
	if q != nil {
		if len(m.Note) > wire.MaxNote {
			return r.fail(kind, method, errors.New("note is too long"))
		}
		q.note, q.here = bytes.Clone(m.Note), verdict == wire.Answer
	}
	if r.Report != ReportNone {
		if err := r.report(kind, method, &m); err != nil {
			return err
		}
	}
	if verdict != wire.Forward {
		n := note{Kind: kind, Method: method, Verdict: verdict.String()}
		switch verdict {
		case wire.Answer:
			n.Answer = out
		case wire.Local:
			n.Message = out
		}
		if err := r.note(n); err != nil {
			return err
		}
	}
	if r.Explain != ExplainNone {
		if err := r.explain(kind, method, explanation); err != nil {
			return err
		}
	}
	if verdict == wire.Forward {
		return r.write(out)
	}
	return nil
}

// report notes what was lost and changed: one note for each rule, or one for each place. What the receiver assumes is left out.
func (r *filterRun) report(kind, method string, m *wire.Message) error {
	is := map[bool]string{true: "lost", false: "changed"}
	for _, l := range m.Losses {
		count := l.Count
		for _, p := range m.Places {
			if p.Rule == l.Rule && p.What == l.What && p.Level == wire.Assumed {
				count--
			}
		}
		for _, p := range m.Places {
			if p.Rule != l.Rule || p.What != l.What || p.Level == wire.Assumed {
				continue
			}
			n := note{Kind: kind, Method: method, Rule: l.Rule, What: l.What, Is: is[p.Lost()], Level: strings.ToLower(p.Level.String()), Path: p.Path, Standin: p.Standin}
			if r.Report == ReportShort {
				n.Is, n.Level, n.Count, n.Standin = is[l.Lost > 0], strings.ToLower(l.Level.String()), count, l.Standin
				if l.Lost < count {
					n.Lost = l.Lost
				}
			}
			if err := r.note(n); err != nil {
				return err
			}
			if r.Report == ReportShort {
				break
			}
		}
	}
	return nil
}
