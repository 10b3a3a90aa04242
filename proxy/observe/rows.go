package observe

import (
	"cmp"
	"math"
	"slices"
	"strings"
	"time"
	"unsafe"

	"github.com/tidwall/gjson"

	"github.com/dragoman-proxy/dragoman/translate/wire"
)

// Redactor removes secrets from what leaves this package.
type Redactor interface {
	Payload(method, tool string, raw []byte) []byte // one line of JSON
	Header(name, value string) (string, bool)       // false if it is not shown
	Text(text string) string
	Cut(method, tool string, raw []byte) string // the beginning of a message that was cut
}

// remembering is a Redactor for many rows at once, which have the same names.
type remembering struct {
	Redactor
	texts map[string]string
}

// Text implements [Redactor].
func (r *remembering) Text(text string) string {
	if text == "" {
		return ""
	}
	out, known := r.texts[text]
	if !known {
		out = r.Redactor.Text(text)
		r.texts[text] = out
	}
	return out
}

// Row is what a table shows of a call.
type Row struct {
	N              uint64   `json:"n"`
	At             string   `json:"at"`
	Kind           string   `json:"kind"` // request, notification or response of the client; server
	Method         string   `json:"method,omitempty"`
	Tool           string   `json:"tool,omitempty"`
	Subject        string   `json:"subject,omitempty"` // see [Head]
	ID             string   `json:"id,omitempty"`
	Session        string   `json:"session,omitempty"`
	Client         string   `json:"client,omitempty"`
	ClientRevision string   `json:"client_rev,omitempty"`
	Server         string   `json:"server,omitempty"`
	ServerRevision string   `json:"server_rev,omitempty"`
	Transport      string   `json:"transport,omitempty"` // at the client's edge
	Status         string   `json:"status"`
	Error          string   `json:"error,omitempty"`
	Code           int64    `json:"code,omitempty"`
	Cause          string   `json:"cause,omitempty"`
	MS             *RowMS   `json:"ms,omitempty"`
	Bytes          *RowSize `json:"bytes,omitempty"`
	Tokens         *RowSize `json:"tokens,omitempty"`
	Rules          []string `json:"rules,omitempty"`
	Losses         []Loss   `json:"losses,omitempty"`  // what the receiver misses
	Changed        []Loss   `json:"changed,omitempty"` // what was added or moved, or held nothing
	By             []string `json:"by,omitempty"`
	Messages       int      `json:"messages"`
}

// RowMS is the time of a call in milliseconds.
type RowMS struct {
	Client float64 `json:"client"`
	Proxy  float64 `json:"proxy"`
	Server float64 `json:"server"`
}

func (ms *RowMS) sum() float64 { return ms.Client + ms.Proxy + ms.Server }

// Loss is what translation has lost, or what it has changed without a loss.
type Loss struct {
	Rule  string `json:"rule"`
	What  string `json:"what"`
	Count int    `json:"count"`
}

// Statuses of a call that has not ended.
const (
	open   = "open"
	asking = "asking" // the client is asked something
)

// maxParts bounds the messages and the notes of one call.
const maxParts = 1000

// row is a call in the ring.
type row struct {
	n        uint64
	peers    *Peers    // those of the call, or of the session that began with it
	calls    *Peers    // those of the call, if it is packed
	live     *contents // nil if the call is packed
	packed   packedCall
	more     int // messages and notes over maxParts
	bytes    int
	asked    int // questions to the client that have no answer yet
	explains []string

	// Positions in the history of the ring.
	born, version uint64
}

// contents returns what there is of the call. It is valid while the ring is locked.
func (r *row) contents() *contents {
	if r.live != nil {
		return r.live
	}
	return r.packed.unpack(r.calls)
}

// owned returns what there is of the call, to be used after the ring is unlocked. Its messages and notes do not change.
func (r *row) owned() contents {
	has := r.live
	if has == nil {
		has = r.packed.unpack(r.calls).owned()
	}
	return contents{call: has.call, messages: slices.Clone(has.messages), notes: slices.Clone(has.notes), end: has.end}
}

// owned returns what there is of call n, to be used without the lock. It returns false if the ring does not have the call.
func (r *Ring) owned(n uint64) (has contents, ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	at := r.rows[n]
	if at == nil {
		return has, false
	}
	return at.owned(), true
}

// size returns how many bytes the row takes, as far as that is known.
func (r *row) size() int {
	if r.live == nil {
		return rowBytes + r.packed.size()
	}
	c := r.live.call
	n := rowBytes + liveBytes(c) + len(r.live.notes)*noteBytes + max(0, len(r.live.messages)-c.ready())*messageBytes
	for _, m := range r.live.messages {
		if !m.Unchanged() {
			n += cap(m.Raw)
		}
	}
	return n
}

// clock is how times are written.
const clock = "2006-01-02T15:04:05.000Z07:00"

func stamp(t time.Time) string { return t.UTC().Format(clock) }

func inMS(d time.Duration) float64 {
	return math.Round(float64(max(d, 0))/float64(time.Millisecond)*1000) / 1000
}

// view returns what is shown of the row.
func (r *row) view(redact Redactor) Row {
	has, p := r.contents(), r.peers
	c := has.call
	out := Row{
		N: c.N, At: stamp(c.Began), Kind: kindOf(c), Method: redact.Text(c.Method), Tool: redact.Text(c.Tool), ID: redact.Text(idText(c.ID)), Session: p.Session,
		Client: redact.Text(p.Client), ClientRevision: p.ClientRevision, Server: redact.Text(p.Server), ServerRevision: p.ServerRevision,
		Transport: p.ClientTransport, Status: open, Messages: len(has.messages) + r.more,
	}
	if c.Subject != "" { // as in the message
		params := append(wire.AppendQuoted([]byte(`{"params":{"uri":`), c.Subject), "}}"...)
		out.Subject = gjson.GetBytes(redact.Payload(c.Method, c.Tool, params), "params.uri").String()
	}
	switch {
	case has.end != nil:
		out.Status, out.Cause = has.end.Status, has.end.Cause
		t := has.end.Timing
		out.MS = &RowMS{inMS(t.Client), inMS(t.Proxy), inMS(t.Server)}
	case r.asked > 0:
		out.Status = asking
	}
	for _, m := range has.messages {
		out.add(m, redact)
	}
	if c.short {
		s := c.summary()
		out.addSummary(&s)
	}
	for _, n := range has.notes {
		out.did(n.By)
		if n.TokensBefore > 0 {
			out.Tokens = &RowSize{n.TokensBefore, n.TokensAfter}
		}
	}
	for _, rule := range r.explains {
		out.Rules = with(out.Rules, rule)
	}
	slices.Sort(out.Rules)
	if out.Status == "failed" && out.Error == "" {
		out.Error = out.Cause
	}
	return out
}

// add adds what m says to the row of its call.
func (out *Row) add(m *Message, redact Redactor) {
	if out.Bytes == nil {
		out.Bytes = new(RowSize)
	}
	if out.Bytes.add(m.Call, m); *out.Bytes == (RowSize{}) {
		out.Bytes = nil
	}
	if m.Kind.Response() && m.Direction == ToClient && m.Edge == ClientEdge {
		out.describe(m, redact)
	}
	out.lose(m.Losses)
}

// addSummary adds what is known of messages that were not kept.
func (out *Row) addSummary(s *summary) {
	out.Messages = s.messages
	if s.size != (RowSize{}) {
		out.Bytes = &RowSize{s.size.Before, s.size.After}
	}
	if s.more == nil {
		return
	}
	out.lose(s.more.losses)
	for _, by := range s.more.by {
		out.did(by)
	}
	if s.more.tokens.Before > 0 {
		out.Tokens = &RowSize{s.more.tokens.Before, s.more.tokens.After}
	}
}

// did adds what else than the translation did something; "" for nothing.
func (out *Row) did(by string) {
	switch by {
	case "":
	case Dialect:
		out.Rules = with(out.Rules, by)
	default:
		out.By = with(out.By, by)
	}
}

// lose adds what was lost, and what was changed.
func (out *Row) lose(list []wire.Loss) {
	for i := range list {
		l := &list[i]
		out.Rules = with(out.Rules, l.Rule)
		out.Losses = tally(out.Losses, l, l.Lost)
		if l.Level != wire.Assumed {
			out.Changed = tally(out.Changed, l, l.Changed())
		}
	}
}

// tally adds n places of l to list.
func tally(list []Loss, l *wire.Loss, n int) []Loss {
	i := slices.IndexFunc(list, func(o Loss) bool { return o.Rule == l.Rule && o.What == l.What })
	switch {
	case n == 0:
	case i >= 0:
		list[i].Count += n
	default:
		list = append(list, Loss{l.Rule, l.What, n})
	}
	return list
}

// maxError is how long an error's text in a row is.
const maxError = 300

// describe notes what the response m says went wrong.
func (r *Row) describe(m *Message, redact Redactor) {
	text := ""
	switch {
	case m.Kind == wire.Error:
		e := m.entire("error.code", "error.message")
		r.Code, text = e[0].Int(), e[1].String()
	case r.Status == "tool_error":
		text = m.entire("result.content.0.text")[0].String()
	}
	if text == "" {
		return
	}
	// As in the message: the text may be JSON.
	r.Error = gjson.ParseBytes(redact.Payload(m.Method, r.Tool, wire.AppendQuoted(nil, text))).String()
	if len(r.Error) > maxError {
		r.Error = strings.ToValidUTF8(r.Error[:maxError], "") + "…"
	}
}

func kindOf(c *Call) string {
	switch {
	case c.Server:
		return "server"
	case c.Kind.Response():
		return "response"
	case c.Kind == wire.Notification:
		return "notification"
	}
	return "request"
}

// idText returns an id without the quotes of a string.
func idText(id string) string { return cmp.Or(gjson.Parse(id).String(), id) }

// These constants bound the ring. The garbage collector lets as much garbage gather as there is memory in use, so a byte that
// is not in chunks costs the process up to two.
const (
	maxBytes = 5 << 20
	maxRows  = 10_000

	// rowBytes is what a row takes besides its contents: with it, its places in the tables of the ring. The others are what
	// contents take while they are not packed.
	rowBytes     = int(unsafe.Sizeof(row{})) + 150
	messageBytes = int(unsafe.Sizeof(Message{})) + 16
	noteBytes    = int(unsafe.Sizeof(Note{})) + 16
)

// liveBytes returns what the contents of a call take besides its messages.
func liveBytes(c *Call) int {
	return int(unsafe.Sizeof(contents{})+unsafe.Sizeof(Call{})) + 64 + c.ready()*messageBytes
}
