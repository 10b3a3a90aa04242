package observe

import (
	"encoding/json"
	"strings"

	"github.com/dragoman-proxy/dragoman/translate"
	"github.com/dragoman-proxy/dragoman/translate/wire"
)

// Detail is all that is shown of one call.
type Detail struct {
	Row      Row           `json:"row"`
	Messages []MessageView `json:"messages"`
	Short    bool          `json:"short,omitempty"` // its messages were not kept, but for some
	More     int           `json:"more,omitempty"`  // further messages and notes, which were not kept
	Notes    []NoteView    `json:"notes,omitempty"`
	Curl     string        `json:"curl,omitempty"`
	Golden   string        `json:"golden,omitempty"`
}

// MessageView is what is shown of a message.
type MessageView struct {
	Seq         uint64             `json:"seq"`
	At          string             `json:"at"`
	MS          float64            `json:"ms"` // since the call began
	Edge        string             `json:"edge"`
	Direction   string             `json:"direction"`
	Kind        string             `json:"kind,omitempty"` // request, notification or response
	Method      string             `json:"method,omitempty"`
	ID          string             `json:"id,omitempty"`
	Revision    string             `json:"rev,omitempty"`
	Transport   string             `json:"transport,omitempty"`
	Status      int                `json:"status,omitempty"` // of the HTTP response
	Size        int                `json:"size"`
	SHA256      string             `json:"sha256,omitempty"`
	Cut         bool               `json:"cut,omitempty"`
	Payload     json.RawMessage    `json:"payload,omitempty"`
	Text        string             `json:"text,omitempty"` // a payload that is no JSON, or the beginning of a cut one
	Headers     map[string]string  `json:"headers,omitempty"`
	Pair        uint64             `json:"pair,omitempty"`
	Same        bool               `json:"same,omitempty"`
	Changes     []translate.Change `json:"changes,omitempty"`
	MoreChanges int                `json:"more_changes,omitempty"`
	Unexplained int                `json:"unexplained,omitempty"`
	Verdict     string             `json:"verdict,omitempty"` // if it did not go on: drop, answer or local
	Failure     string             `json:"failure,omitempty"` // why it could not be translated
}

// NoteView is what is shown of a note.
type NoteView struct {
	At     string  `json:"at"`
	MS     float64 `json:"ms"` // since the call began
	By     string  `json:"by"`
	What   string  `json:"what,omitempty"`
	Path   string  `json:"path,omitempty"`
	Detail string  `json:"detail,omitempty"`
}

// kind returns the kind of a message as it is shown.
func (m *Message) kind() string {
	switch {
	case m.Kind == 0:
		return ""
	case m.Kind.Response():
		return "response"
	}
	return m.Kind.String()
}

// Detail returns the call with number n. It returns false if the ring does not have it. It may take long, and does not
// block the ring.
func (r *Ring) Detail(n uint64) (Detail, bool) {
	r.mu.Lock()
	at := r.rows[n]
	if at == nil {
		r.mu.Unlock()
		return Detail{}, false
	}
	has := at.owned()
	d := Detail{Row: at.view(r.redact), Messages: []MessageView{}, Short: has.call.short, More: at.more}
	r.mu.Unlock()

	rules := []string{}
	partner := partners{}
	for _, m := range has.messages {
		if m.From != nil {
			partner[m.From.Seq] = m
		}
	}
	for _, m := range has.messages {
		view := m.view(r.redact, has.call.Tool)
		view.MS = inMS(m.At.Sub(has.call.Began))
		switch {
		case m.From != nil:
			view.Pair = m.From.Seq
			if m.Unchanged() {
				view.Same, view.Payload, view.Text = true, nil, ""
			}
		case partner[m.Seq] != nil:
			view.Pair = partner[m.Seq].Seq
			view.Same = partner[m.Seq].Unchanged()
		}
		if m.From == nil && (partner[m.Seq] != nil || m.Why.Translator != nil || m.Recorded != nil) {
			c := changesOf(m, partner[m.Seq], has.notes)
			view.Changes, view.MoreChanges, view.Unexplained, view.Failure = c.list, c.more, c.unexplained, r.redact.Text(c.failure)
			if partner[m.Seq] == nil && c.verdict != wire.Forward {
				view.Verdict = c.verdict.String()
			}
			for _, change := range c.list {
				if strings.HasPrefix(change.Rule, "C") {
					rules = with(rules, change.Rule)
				}
			}
		}
		d.Messages = append(d.Messages, view)
	}
	for _, note := range has.notes {
		if note.By == "" {
			continue // the row has it
		}
		d.Notes = append(d.Notes, NoteView{stamp(note.At), inMS(note.At.Sub(has.call.Began)), note.By, note.What, note.Path, r.redact.Text(note.Detail)})
	}
	d.Golden = r.golden(has.messages, partner)

	r.mu.Lock()
	defer r.mu.Unlock()
	if r.rows[n] != at { // it was forgotten meanwhile
		return d, true
	}
	if len(rules) > len(at.explains) || at.explains == nil {
		at.explains = rules
		r.sessions.changed(at.peers, rules...)
		r.changed(at, 0) // its row has more rules now
	}
	if r.rows[n] == at {
		d.Row = at.view(r.redact)
	}
	return d, true
}

// partners has, by the Seq of a message, what became of it.
type partners map[uint64]*Message

func (m *Message) view(redact Redactor, tool string) MessageView {
	v := MessageView{
		Seq: m.Seq, At: stamp(m.At), Edge: m.Edge.String(), Direction: m.Direction.String(), Kind: m.kind(), Method: redact.Text(m.Method),
		ID: redact.Text(idText(m.IDText())), Revision: m.Revision(), Transport: m.Transport(), Status: m.Status, Size: m.Size, SHA256: m.SHA256, Cut: m.Cut,
	}
	switch {
	case m.Cut:
		v.Text = redact.Cut(m.Method, tool, m.Raw)
	case wire.Valid(m.Raw):
		v.Payload = redact.Payload(m.Method, tool, m.Raw)
	case len(m.Raw) > 0:
		v.Text = redact.Text(string(m.Raw))
	}
	for _, h := range m.Header {
		if value, shown := redact.Header(h.Name, h.Value); shown {
			if v.Headers == nil {
				v.Headers = map[string]string{}
			}
			v.Headers[h.Name] = value
		}
	}
	return v
}

// translatorOf returns the translator that made out of in.
func translatorOf(in, out *Message) *translate.Translator {
	if out.Why.Translator != nil {
		return out.Why.Translator
	}
	return in.Why.Translator
}

// golden returns the first translated message as a case for translate/testdata/golden, or "" if there is none. A response
// comes first, since most rules are about responses.
func (r *Ring) golden(messages []*Message, partner partners) string {
	var best *Message
	for _, m := range messages {
		out := partner[m.Seq]
		if out == nil || m.Cut || out.Cut || translatorOf(m, out) == nil || translatorOf(m, out).Identity() {
			continue
		}
		if best == nil || m.Kind.Response() && !best.Kind.Response() {
			best = m
		}
	}
	if best == nil {
		return ""
	}
	t, tool := translatorOf(best, partner[best.Seq]), best.Call.Tool
	e, err := partner[best.Seq].Explain()
	if err != nil || e.Err != nil || e.Verdict != wire.Forward {
		return ""
	}
	var b strings.Builder
	var rules []string
	for _, c := range e.Changes {
		rules = with(rules, c.Rule)
	}
	b.WriteString("# " + strings.Join(append(rules, "· seen on the live page"), " ") + "\n")
	b.WriteString("from: " + t.From().Name + "\nto: " + t.To().Name + "\n")
	if best.Kind.Response() {
		b.WriteString("kind: " + best.Kind.String() + "\nmethod: " + best.Method + "\n")
	}
	b.WriteString("-- in --\n" + string(r.redact.Payload(best.Method, tool, best.Raw)) + "\n-- want --\n" + string(r.redact.Payload(best.Method, tool, e.Out)) + "\n")
	return b.String()
}
