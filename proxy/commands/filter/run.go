package filter

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"unicode"
	"unicode/utf16"

	"github.com/dragoman-proxy/dragoman/proxy/bytes/lines"
	"github.com/dragoman-proxy/dragoman/proxy/config"
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
	Report Reporting // how much Notes says about what was lost and changed
	By     Sender    // sender of lines that do not name one

	// Edge makes In a recording: the messages that came to dragoman at this edge are translated, recording.ServerEdge or
	// ClientEdge. From and To may be nil then; they stand for the revisions of each session.
	Edge string

	Explain Explaining // how Notes says what was changed, and by which rule
}

// Reporting says how much a Filter reports about what was lost, which the receiver misses, and changed.
type Reporting string

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
	Is      string          `json:"is,omitempty"` // lost or changed
	Level   string          `json:"level,omitempty"`
	Count   int             `json:"count,omitempty"`
	Lost    int             `json:"lost,omitempty"` // of Count, if not all are lost
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

type filterRun struct {
	Filter
	table    *translate.Table
	tr       *translate.Translator
	out      *bufio.Writer
	notes    *json.Encoder
	asked    requests
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

// requests holds the open requests of both sides, by their sender.
type requests map[Sender]open

// of returns those of one side.
func (r requests) of(by Sender) open {
	if r[by] == nil {
		r[by] = open{}
	}
	return r[by]
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

// fail notes that a line could not be translated. It returns an error if writing to Notes fails.
func (r *filterRun) fail(kind, method string, err error) error {
	r.failed = true
	return r.note(note{Kind: kind, Method: method, Error: err.Error()})
}

// Explaining says how a Filter explains what the translation changes in each message.
type Explaining string

// The ways to explain changes. With ExplainWords all of Notes is text for people instead of lines of JSON.
const (
	ExplainNone  Explaining = ""
	ExplainWords Explaining = "words"
	ExplainJSON  Explaining = "json" // one line for each change
)

func (r *filterRun) note(n note) error {
	if r.Explain == ExplainWords {
		_, err := io.WriteString(r.Notes, r.words(n))
		return err
	}
	n.Line, n.Index = r.line, r.index
	return r.notes.Encode(n)
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

// words returns a note as text.
func (r *filterRun) words(n note) string {
	text := n.Error
	switch n.Verdict {
	case wire.Drop.String():
		text = "dropped, the receiver gets nothing"
	case wire.Answer.String():
		text = "not sent; the sender gets the answer " + string(n.Answer)
	case wire.Local.String():
		text = "not sent as it is: a proxy needs the state of the session for it; translated so far: " + string(n.Message)
	case answeredBefore:
		text = "answers a request that was not sent, but answered by the translation"
	}
	return r.subject(n.Kind, n.Method) + ": " + printable(text) + "\n"
}

// printable escapes the characters that could control a terminal or make a text look like another.
func printable(text string) string {
	var b strings.Builder
	for _, c := range text {
		switch {
		case unicode.IsPrint(c):
			b.WriteRune(c)
		case c > 0xFFFF:
			high, low := utf16.EncodeRune(c)
			fmt.Fprintf(&b, `\u%04x\u%04x`, high, low)
		default:
			fmt.Fprintf(&b, `\u%04x`, c)
		}
	}
	return b.String()
}

// subject names the message at hand.
func (r *filterRun) subject(kind, method string) string {
	text := fmt.Sprintf("line %d", r.line)
	if r.index != nil {
		text += fmt.Sprintf(", message %d", *r.index+1)
	}
	if kind == "" {
		return text
	}
	return text + ": " + method + " " + kind
}

// recordedSession is what a recording has said of a session so far.
type recordedSession struct {
	revisions map[string]*translate.Revision // by edge
	facts     wire.Facts
	asked     requests
	notes     map[noteKey][][]byte // what the translation of an answer needs of a request that is yet to come to the edge
}

func (s *recordedSession) learn(edge, revision string) {
	if rev := translate.Lookup(revision); rev != nil {
		s.revisions[edge] = rev
	}
}

type noteKey struct {
	call   uint64
	method wire.Method
}

// The levels of reporting.
const (
	ReportNone  Reporting = ""
	ReportShort Reporting = "short" // the first place of each rule, and the number of places
	ReportFull  Reporting = "full"  // every place
)
