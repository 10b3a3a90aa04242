// Package corpus generates the messages that benchmarks and allocation tests run on:
// messages of clients and servers, modeled on recorded sessions of
// published ones. All content is derived from a fixed seed.
//
// Messages are written in the latest handshake revision. For an older revision they
// are first translated to it, so that a pair of revisions is measured with messages
// that a peer of the first one would send:
//
//	c, err := corpus.New(corpus.Largest)
//	for _, m := range c.Between(from, to) { … }
//
// testdata/messages.txt holds the small messages, tools.go and results.go make the large ones.
package corpus

import (
	_ "embed"
	"fmt"
	"slices"
	"strings"

	"github.com/tidwall/gjson"

	"github.com/dragoman-proxy/dragoman/translate"
	"github.com/dragoman-proxy/dragoman/translate/wire"
)

//go:embed testdata/messages.txt
var small string

// Messages of testdata that this package asks for.
const (
	initializeRequest = "initialize"
	choicesForm       = "elicit_choices"
	flatAnswer        = "elicit_choices_result" // of a client whose revision has no multi-select, and which got one boolean for each option
)

// Largest is the size of the largest messages, in bytes.
const Largest = 10 << 20

// Small is the size up to which a translation has to take less than a
// millisecond, in bytes.
const Small = 256 << 10

// Tools lists how many tools the tool lists have.
func Tools() []int { return []int{1, 50, 500, 5000} }

// Sizes lists the sizes of tool results, in bytes.
func Sizes() []int { return []int{1 << 10, 64 << 10, 1 << 20, Largest} }

// Message is one message, with the facts that are needed to translate it.
type Message struct {
	Name       string // what it is, unique in the corpus: "tools_list_50"
	FromClient bool
	Kind       wire.Kind
	Method     wire.Method // of a response, that of the request it answers
	Revision   *translate.Revision
	Facts      wire.Facts // of the session that it belongs to
	Note       []byte     // of a response: what the translation of its request left
	// Raw is the message. It is shared: code that changes it in place needs a copy.
	Raw []byte
}

// Corpus is a set of messages in every handshake revision. It is immutable.
type Corpus struct {
	table *translate.Table
	in    map[*translate.Revision][]Message
	facts map[*translate.Revision]wire.Facts // of a session with a client of that revision
}

// New generates all messages of at most about maxSize bytes. Its error is that of a
// translation from one revision to another.
func New(maxSize int) (*Corpus, error) {
	table, err := translate.NewTable(translate.Options{})
	if err != nil {
		return nil, err
	}
	latest, err := write(maxSize)
	if err != nil {
		return nil, err
	}
	c := &Corpus{table: table, in: map[*translate.Revision][]Message{}, facts: map[*translate.Revision]wire.Facts{}}
	for _, r := range translate.Handshake() {
		initialize, err := c.translate(*Find(latest, initializeRequest), r)
		if err != nil {
			return nil, err
		}
		c.facts[r] = declared(initialize.Raw)
		if c.in[r], err = c.older(latest, r); err != nil {
			return nil, err
		}
	}
	return c, nil
}

// write makes the messages in the latest revision: those of testdata, and the large ones.
func write(maxSize int) ([]Message, error) {
	var all []Message
	add := func(name, sender, method string, raw []byte) error {
		m := Message{Name: name, FromClient: sender == "client", Method: wire.MethodOf([]byte(method)), Revision: translate.Latest(), Raw: raw}
		all = append(all, m)
		return all[len(all)-1].identify()
	}
	for line := range strings.Lines(small) {
		if strings.HasPrefix(line, "#") {
			continue
		}
		f := strings.SplitN(strings.TrimSpace(line), " ", 4)
		if len(f) < 4 {
			return nil, fmt.Errorf("messages.txt: %q", line)
		}
		if err := add(f[0], f[1], f[2], []byte(f[3])); err != nil {
			return nil, err
		}
	}
	for _, l := range sized(maxSize) {
		raw := appendJSON(nil, object{"result", l.result, "jsonrpc", "2.0", "id", l.id})
		if err := add(l.name, "server", l.method.String(), raw); err != nil {
			return nil, err
		}
	}
	return all, nil
}

// Pairs returns all ordered pairs of handshake revisions, equal ones included.
func Pairs() [][2]*translate.Revision {
	var pairs [][2]*translate.Revision
	for _, from := range translate.Handshake() {
		for _, to := range translate.Handshake() {
			pairs = append(pairs, [2]*translate.Revision{from, to})
		}
	}
	return pairs
}

// In returns the messages that peers of revision r send to each other.
func (c *Corpus) In(r *translate.Revision) []Message { return c.Between(r, r) }

// Between returns the messages that a peer of revision from sends to one of
// revision to, before their translation.
func (c *Corpus) Between(from, to *translate.Revision) []Message {
	list := slices.Clone(c.in[from])
	for i := range list {
		m := &list[i]
		m.Facts = c.facts[to]
		if m.FromClient {
			m.Facts = c.facts[from]
		}
		if m.Name == flatAnswer {
			m.Note = c.note(to, from)
		}
	}
	return list
}

// Find returns the message of that name, or nil if list has none.
func Find(list []Message, name string) *Message {
	for i := range list {
		if list[i].Name == name {
			return &list[i]
		}
	}
	return nil
}

// Rewrite scans and translates the message with m and scratch, whose memory it
// reuses. text is in.Raw or a copy of it. If the translation does not make the
// message longer, Rewrite changes text in place; pass a copy to keep in.Raw as it
// is. The results are those of [translate.Translator.Rewrite]; an
// error may also be that of the scan.
func (in *Message) Rewrite(t *translate.Translator, m *wire.Message, text, scratch []byte) ([]byte, wire.Verdict, error) {
	m.Facts = in.Facts
	if err := m.Scan(text, t.Shape()); err != nil {
		return nil, wire.Drop, err
	}
	if m.Kind.Response() {
		m.Method, m.Note = in.Method, in.Note
	}
	return t.Rewrite(scratch, m)
}

// identify sets the fields that follow from the text of the message.
func (in *Message) identify() error {
	var m wire.Message
	if err := m.Scan(in.Raw, nil); err != nil {
		return fmt.Errorf("%s: %w", in.Name, err)
	}
	in.Kind = m.Kind
	if !m.Kind.Response() {
		in.Method = m.Method
	}
	return nil
}

// older returns the messages in revision r. It leaves out messages that r does not have, and
// responses to requests that r does not have.
func (c *Corpus) older(latest []Message, r *translate.Revision) ([]Message, error) {
	asked := map[wire.Method]bool{wire.OtherMethod: true}
	var list []Message
	for _, in := range latest {
		in.Facts = c.facts[r]
		m, err := c.translate(in, r)
		switch {
		case err != nil:
			return nil, err
		case m.Raw == nil:
			continue
		case m.Kind == wire.Request:
			asked[m.Method] = true
		}
		m.Note = nil
		list = append(list, m)
	}
	return slices.DeleteFunc(list, func(m Message) bool { return m.Kind.Response() && !asked[m.Method] }), nil
}

// translate translates a message to another revision. Raw of the result is nil if the revision
// has no such message; its Note is for the response.
func (c *Corpus) translate(in Message, to *translate.Revision) (Message, error) {
	var m wire.Message
	out, verdict, err := in.Rewrite(c.table.Between(in.Revision, to), &m, slices.Clone(in.Raw), nil)
	if err != nil {
		return in, fmt.Errorf("%s in %s: %w", in.Name, to, err)
	}
	in.Revision, in.Note = to, slices.Clone(m.Note)
	if verdict != wire.Forward {
		in.Raw = nil
		return in, nil
	}
	in.Raw = out
	return in, in.identify()
}

// note returns the note from the translation of the server's form for the client, or nil if
// the form is not changed.
func (c *Corpus) note(server, client *translate.Revision) []byte {
	form := Find(c.in[server], choicesForm)
	if form == nil {
		return nil
	}
	in := *form
	in.Facts = c.facts[client]
	out, err := c.translate(in, client)
	if err != nil {
		return nil
	}
	return out.Note
}

// declared returns the facts of a session that begins with this initialize request, with a
// server that sends log messages.
func declared(initialize []byte) wire.Facts {
	facts := wire.ServerLogging
	capabilities := gjson.GetBytes(initialize, "params.capabilities")
	for path, fact := range map[string]wire.Facts{
		"roots":            wire.ClientRoots,
		"sampling":         wire.ClientSampling,
		"sampling.tools":   wire.ClientSamplingTools,
		"sampling.context": wire.ClientSamplingContext,
		"elicitation":      wire.ClientElicitation,
		"elicitation.form": wire.ClientElicitationForm,
		"elicitation.url":  wire.ClientElicitationURL,
		"tasks":            wire.ClientTasks,
	} {
		if capabilities.Get(path).Exists() {
			facts |= fact
		}
	}
	if facts.Has(wire.ClientElicitation) && !facts.Has(wire.ClientElicitationURL) {
		facts |= wire.ClientElicitationForm
	}
	return facts
}
