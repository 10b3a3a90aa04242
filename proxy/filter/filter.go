// Package filter translates messages of one revision into another's, line by line and without a peer at either end.
// The command dragoman translate uses it.
package filter

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/tidwall/gjson"

	"github.com/dragoman-proxy/dragoman/proxy/config"
	"github.com/dragoman-proxy/dragoman/proxy/lines"
	"github.com/dragoman-proxy/dragoman/proxy/mcp"
	"github.com/dragoman-proxy/dragoman/proxy/observe/recording"
	"github.com/dragoman-proxy/dragoman/translate"
	"github.com/dragoman-proxy/dragoman/translate/wire"
)

// Filter translates messages of one revision into another's, one message per line, without a peer at either end. A
// line may also hold an array of messages, or an object that names the sender of its message:
// {"dir":"c2s","message":{…}}, or s2c.
//
// A Filter learns from the messages: a response has the method of the request with its id if that came before,
// otherwise its members decide. An initialize request declares the capabilities of the client. Before it came, the
// client counts as having all of them. If the sender of a message is known, a response can only answer a request of
// the other side.
type Filter struct {
	From, To *translate.Revision
	Options  translate.Options
	Limits   config.Limits

	In     io.Reader
	Out    io.Writer // messages for the receiver
	Notes  io.Writer // lines of JSON: what was dropped, answered or refused
	Report Reporting // how much Notes says about what was lost
	By     Sender    // sender of lines that do not name one

	// Edge makes In a recording: the messages that came to dragoman at this edge are translated, recording.ServerEdge or
	// ClientEdge. From and To may be nil then; they stand for the revisions of each session.
	Edge string

	Explain Explaining // how Notes says what was changed, and by which rule
}

// Reporting says how much a Filter reports about what was lost.
type Reporting string

// The levels of reporting.
const (
	ReportNone  Reporting = ""
	ReportShort Reporting = "short" // the first place of each rule, and the number of places
	ReportFull  Reporting = "full"  // every place
)

// Sender is the side that sent a message.
type Sender string

// The two sides, and an unknown one.
const (
	AnySender  Sender = ""
	FromClient Sender = "c2s"
	FromServer Sender = "s2c"
)

// note is one line of Notes.
type note struct {
	Line    int             `json:"line"`
	Index   *int            `json:"index,omitempty"` // position in the line's array
	Kind    string          `json:"kind,omitempty"`
	Method  string          `json:"method,omitempty"`
	Verdict string          `json:"verdict,omitempty"`
	Answer  json.RawMessage `json:"answer,omitempty"`
	Message json.RawMessage `json:"message,omitempty"` // for a local verdict: the message as far as it was translated
	Error   string          `json:"error,omitempty"`
	Rule    string          `json:"rule,omitempty"`
	What    string          `json:"what,omitempty"`
	Level   string          `json:"level,omitempty"`
	Count   int             `json:"count,omitempty"`
	Path    string          `json:"path,omitempty"`
	Standin bool            `json:"standin,omitempty"`
	Change  string          `json:"change,omitempty"`
	Before  string          `json:"before,omitempty"`
	After   string          `json:"after,omitempty"`
	Does    string          `json:"does,omitempty"`
	More    int             `json:"more,omitempty"` // changes that are not listed
}

// answeredBefore is the verdict of a response whose request the translation answered.
const answeredBefore = "answered before"

var errNotTranslated = errors.New("not every line could be translated")

// Run translates until In ends. It notes lines that are not messages and skips them; in that case it returns an error
// at the end.
func (f Filter) Run() error {
	table, err := translate.NewTable(f.Options)
	if err != nil {
		return err
	}
	out := bufio.NewWriter(f.Out)
	run := &filterRun{
		Filter: f, table: table, notes: json.NewEncoder(f.Notes), out: out,
		asked: map[Sender]open{}, facts: ^wire.Facts(0), recorded: map[string]*recordedSession{}, declared: map[uint64]wire.Facts{},
	}
	if f.Edge == "" {
		run.tr = table.Between(f.From, f.To)
	}
	run.notes.SetEscapeHTML(false)
	if err := run.all(); err != nil {
		return err
	}
	if err := out.Flush(); err != nil {
		return err
	}
	if run.failed {
		return errNotTranslated
	}
	return nil
}

type filterRun struct {
	Filter
	table    *translate.Table
	tr       *translate.Translator
	out      *bufio.Writer
	notes    *json.Encoder
	asked    map[Sender]open // by the sender of the requests
	facts    wire.Facts
	recorded map[string]*recordedSession // by their fingerprints
	declared map[uint64]wire.Facts       // what clients declared, by the calls of initialize
	line     int
	index    *int
	failed   bool
}

// maxOpen bounds how many requests of one side may have no answer yet.
const maxOpen = 1 << 20

// request is a request that has no answer yet.
type request struct {
	method wire.Method
	note   []byte   // what the translation of the answer needs of the request
	here   bool     // the translation itself answered it
	older  *request // an older request with the same id
}

// open holds the requests of one side that have no answer yet, the newest of each id, by the keys of their ids.
type open map[string]*request

// open returns the requests of one side that have no answer yet.
func (r *filterRun) open(by Sender) open {
	if r.asked[by] == nil {
		r.asked[by] = open{}
	}
	return r.asked[by]
}

func (o open) add(id []byte, q *request) error {
	if len(o) >= maxOpen {
		return errors.New("too many open requests")
	}
	key := string(wire.AppendIDKey(nil, id))
	q.older = o[key]
	o[key] = q
	return nil
}

// take removes and returns the newest request of an id, or returns nil if there is none.
func (o open) take(id []byte) *request {
	key := string(wire.AppendIDKey(nil, id))
	q := o[key]
	if q != nil && q.older != nil {
		o[key] = q.older
	} else {
		delete(o, key)
	}
	return q
}

func (r *filterRun) all() error {
	in := lines.NewReader(r.In, int(r.Limits.UpstreamMessage))
	for {
		line, err := in.Next()
		var tooLong *lines.TooLongError
		r.line++
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case errors.As(err, &tooLong):
			err = r.fail("", "", err)
		case err == nil:
			err = r.takeLine(line)
		}
		if err != nil {
			return err
		}
	}
}

// fail notes that a line could not be translated. It returns an error if writing to Notes fails.
func (r *filterRun) fail(kind, method string, err error) error {
	r.failed = true
	return r.note(note{Kind: kind, Method: method, Error: err.Error()})
}

func (r *filterRun) note(n note) error {
	if r.Explain == ExplainWords {
		_, err := io.WriteString(r.Notes, r.words(n))
		return err
	}
	n.Line, n.Index = r.line, r.index
	return r.notes.Encode(n)
}

// takeLine translates a line: a message, an array of messages, or an object that names the sender of its message.
func (r *filterRun) takeLine(line []byte) error {
	if r.Edge != "" {
		return r.takeRecorded(line)
	}
	by := r.By
	if dir, said := gjson.GetBytes(line, "dir"), gjson.GetBytes(line, "message"); said.Exists() && !gjson.GetBytes(line, "jsonrpc").Exists() && gjson.ValidBytes(line) {
		if by = Sender(dir.String()); by != FromClient && by != FromServer {
			return r.fail("", "", fmt.Errorf("dir is %q; it must be c2s or s2c", dir.String()))
		}
		line = []byte(said.Raw)
	} else if _, ok := recording.Parse(line); ok {
		return r.fail("", "", errors.New("this is a recording, which has the messages of both sides: choose one with --edge client or --edge server"))
	}
	return r.takePlain(line, by)
}

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
		return r.open(FromServer).take(m.ID())
	case FromServer:
		return r.open(FromClient).take(m.ID())
	}
	return r.open(AnySender).take(m.ID())
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
		if err := r.open(by).add(m.ID(), q); err != nil {
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

// write writes a message for the receiver. If Notes is for people, it follows the words about it at once.
func (r *filterRun) write(message []byte) error {
	_, err := r.out.Write(lines.Append(nil, message))
	if err == nil && r.Explain == ExplainWords {
		err = r.out.Flush()
	}
	if err != nil {
		return fmt.Errorf("write: %w", err)
	}
	return nil
}

// report notes what was lost: one note for each rule, or one for each place.
func (r *filterRun) report(kind, method string, m *wire.Message) error {
	for _, l := range m.Losses {
		for _, p := range m.Places {
			if p.Rule != l.Rule || p.What != l.What {
				continue
			}
			n := note{Kind: kind, Method: method, Rule: l.Rule, What: l.What, Level: strings.ToLower(p.Level.String()), Path: p.Path, Standin: l.Standin}
			if r.Report == ReportShort {
				n.Level, n.Count = strings.ToLower(l.Level.String()), l.Count
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
