package proxy

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/tidwall/gjson"

	"github.com/dragoman-proxy/dragoman/proxy/lines"
	"github.com/dragoman-proxy/dragoman/translate"
	"github.com/dragoman-proxy/dragoman/translate/wire"
)

// Filter translates messages of one revision, one a line, into another's,
// without a peer at either end.
//
// It learns as it goes: a response gets the method of the request with its id,
// when that came before, and is judged by its members otherwise; an initialize
// request says what the client can do. Until one came, it can do everything.
type Filter struct {
	From, To *translate.Revision
	Options  translate.Options
	Limits   LimitsConfig

	In     io.Reader
	Out    io.Writer // the messages the receiver gets
	Notes  io.Writer // lines of JSON: what was dropped, answered or refused
	Report bool      // also what was lost, on Notes
}

// note is one line of Notes.
type note struct {
	Line    int             `json:"line"`
	Kind    string          `json:"kind,omitempty"`
	Method  string          `json:"method,omitempty"`
	Verdict string          `json:"verdict,omitempty"`
	Answer  json.RawMessage `json:"answer,omitempty"`
	Message json.RawMessage `json:"message,omitempty"` // of a local verdict: as far as it goes
	Error   string          `json:"error,omitempty"`
	Rule    string          `json:"rule,omitempty"`
	What    string          `json:"what,omitempty"`
	Level   string          `json:"level,omitempty"`
	Count   int             `json:"count,omitempty"`
	Path    string          `json:"path,omitempty"`
	Standin bool            `json:"standin,omitempty"`
}

var errNotTranslated = errors.New("not every line could be translated")

// Run translates until In ends. Lines that are no message are noted and passed
// over; the error then says so at the end.
func (f Filter) Run() error {
	table, err := translate.NewTable(f.Options)
	if err != nil {
		return err
	}
	out := bufio.NewWriter(f.Out)
	run := &filterRun{
		Filter: f, tr: table.Between(f.From, f.To), notes: json.NewEncoder(f.Notes), out: out,
		asked: newCalls(1 << 20), facts: ^wire.Facts(0),
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
	tr     *translate.Translator
	out    *bufio.Writer
	notes  *json.Encoder
	asked  *calls
	facts  wire.Facts
	line   int
	failed bool
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
			err = r.translate(line)
		}
		if err != nil {
			return err
		}
	}
}

// fail notes a line that could not be translated; its error is that of Notes.
func (r *filterRun) fail(kind, method string, err error) error {
	r.failed = true
	return r.notes.Encode(note{Line: r.line, Kind: kind, Method: method, Error: err.Error()})
}

func (r *filterRun) translate(line []byte) error {
	var m wire.Message
	if err := m.Scan(line, r.tr.Shape()); err != nil {
		return r.fail("", "", err)
	}
	m.Facts = r.facts
	var c *call
	switch {
	case m.Kind == wire.Request:
		if m.Method == wire.Initialize {
			r.facts = clientFacts(gjson.Get(view(m.Params()), "capabilities"))
			m.Facts = r.facts
		}
		c = newCall(m.ID(), m.Method)
		if err := r.asked.add(c); err != nil {
			return r.fail(m.Kind.String(), m.Method.String(), err)
		}
	case m.Kind.Response():
		if asked := r.asked.take(wire.AppendIDKey(nil, m.ID())); asked != nil {
			m.Method, m.Note = asked.method, asked.note
		} else {
			m.Classify()
		}
	}
	kind, method := m.Kind.String(), m.Method.String()
	out, verdict, err := r.tr.Rewrite(nil, &m)
	if err != nil {
		return r.fail(kind, method, err)
	}
	if c != nil && m.Note != nil {
		if err := c.keep(m.Note); err != nil {
			return r.fail(kind, method, err)
		}
	}
	if r.Report {
		if err := r.report(kind, method, m.Losses); err != nil {
			return err
		}
	}
	if verdict != wire.Forward {
		n := note{Line: r.line, Kind: kind, Method: method, Verdict: verdict.String()}
		switch verdict {
		case wire.Answer:
			n.Answer = out
		case wire.Local:
			n.Message = out
		}
		return r.notes.Encode(n)
	}
	if len(m.Also) > 0 {
		if _, err := r.out.Write(lines.Append(nil, m.Also)); err != nil {
			return fmt.Errorf("write: %w", err)
		}
	}
	if _, err := r.out.Write(lines.Append(nil, out)); err != nil {
		return fmt.Errorf("write: %w", err)
	}
	return nil
}

func (r *filterRun) report(kind, method string, losses []wire.Loss) error {
	for _, l := range losses {
		if err := r.notes.Encode(note{
			Line: r.line, Kind: kind, Method: method,
			Rule: l.Rule, What: l.What, Level: levelName(l.Level), Count: l.Count, Path: l.Path.String(), Standin: l.Standin,
		}); err != nil {
			return err
		}
	}
	return nil
}
