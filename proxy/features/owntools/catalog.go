// Package owntools serves tools of dragoman's own, in addition to the server's or without a server:
// those of adapters, and the one that reads the rest of a cut result. To a session they look like
// tools of a server of [translate.Latest]: a [Catalog] adds them to the server's list, and a
// [Request] answers a call with a stream, on which it may ask the user and report progress.
package owntools

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/tidwall/gjson"
	"github.com/tidwall/sjson"
	"go.uber.org/zap"

	"github.com/dragoman-proxy/dragoman/proxy/features/shape"
	"github.com/dragoman-proxy/dragoman/proxy/protocol/mcp"
	"github.com/dragoman-proxy/dragoman/proxy/protocol/toolindex"
	"github.com/dragoman-proxy/dragoman/proxy/transport/downstream"
	"github.com/dragoman-proxy/dragoman/translate"
	"github.com/dragoman-proxy/dragoman/translate/wire"
)

// Source serves tools. They use [translate.Latest]; their messages are translated for the client
// like a server's. The methods are safe for concurrent use.
//
// A grant is what a client may use; "" is for clients that may use everything. A tool that is not
// among those of a grant does not exist for its clients.
type Source interface {
	// Grants returns the names of all grants.
	Grants() []string
	// Tools returns the tools of a grant, in a constant order. The result must not be modified.
	Tools(grant string) []Tool
	// Call answers a call of one of the tools: it appends a CallToolResult to what [Call.Begin] returns. It
	// returns soon after ctx ends because the client has left or cancelled. An error is the answer in place of a result.
	Call(ctx context.Context, c *Call) ([]byte, error)
	// Instructions returns what a model should know of the tools of a grant, or "". The first line can be read alone.
	Instructions(grant string) string
	// EndSession releases what was kept for a session.
	EndSession(session string)
}

// Tool is one of the tools: its name and its entry in tools/list.
type Tool struct {
	Name string
	JSON []byte
}

// Call is a call of one of dragoman's own tools. Its slices belong to the exchange and are
// valid during the call.
type Call struct {
	Tool      string
	Arguments []byte            // as they came; nil if there are none
	Grant     string            // what the client may use
	Sender    downstream.Sender // whose Header has the credentials for APIs
	Session   string            // known only to the session's client
	Caller    string            // stands for the request's Authorization; "" for none
	Header    []mcp.Header      // the headers with the request's trace

	// Begin returns the beginning of the response, with room for a result of n bytes, once there is memory for it.
	Begin func(ctx context.Context, n int) ([]byte, error)
	// Wanted is what shaping needs for the result; nil if the result is not shaped.
	Wanted *shape.Wanted

	// Ask asks the user to agree to something. It is nil if no user can be asked. An error says
	// that there was no answer; the user has not refused.
	Ask func(ctx context.Context, message string) (agreed bool, err error)
	// Send asks the user to open a page. It is nil if the client cannot show pages, or if what the
	// user does there would also affect other users.
	Send func(ctx context.Context, message, page string) (agreed bool, err error)
	// Progress tells the client how many parts of the result exist, and describes the newest. It is
	// nil if the client has not asked for progress.
	Progress func(parts int, newest string)
}

// Answer is the end of a [Source]'s Call that has this result.
func (c *Call) Answer(ctx context.Context, result []byte) ([]byte, error) {
	room, err := c.Begin(ctx, len(result))
	return append(room, result...), err
}

// maxOwnInstructions bounds the instructions of all own tools together, in bytes.
const maxOwnInstructions = 2048

// Catalog is an immutable list of dragoman's own tools for the clients with one grant, prepared for
// clients of each revision. A nil Catalog has no tools.
type Catalog struct {
	all          []Source
	grant        string
	others       map[string]*Catalog // by grant; in the catalog of the grant "" only
	names        []string
	byName       map[string]Source
	listing      map[*translate.Revision][][]byte // the entries of tools/list
	instructions string
	index        toolindex.Index
	place        string // where the instructions are placed relative to the server's
	table        *translate.Table
	told         *Edition // identifies the list that sessions were sent
}

// Edition identifies a list of own tools that clients have received.
type Edition struct {
	replaced chan struct{}
}

// Replaced returns a channel that is closed when another list replaces this one.
func (e *Edition) Replaced() <-chan struct{} { return e.replaced }

// New makes the Catalog of the tools of all for the grant "", with those of the other grants. It
// returns nil if all is empty and there was no Catalog before. Two tools with one name are an
// error. was is the previous Catalog, or nil.
func New(table *translate.Table, all []Source, place string, was *Catalog) (*Catalog, error) {
	if len(all) == 0 && was == nil {
		return nil, nil
	}
	c, err := newCatalog(table, all, place, "", was)
	if err != nil {
		return nil, err
	}
	c.others = map[string]*Catalog{}
	for _, set := range all {
		for _, grant := range set.Grants() {
			if c.others[grant] == nil {
				if c.others[grant], err = newCatalog(table, all, place, grant, was.For(grant)); err != nil {
					return nil, err
				}
			}
		}
	}
	return c, nil
}

// For returns the Catalog for clients with a grant. c must be the one for the grant "", or nil.
func (c *Catalog) For(grant string) *Catalog {
	if c == nil || grant == "" {
		return c
	}
	return c.others[grant]
}

func newCatalog(table *translate.Table, all []Source, place, grant string, was *Catalog) (*Catalog, error) {
	c := &Catalog{
		table: table, all: all, grant: grant, byName: make(map[string]Source), listing: make(map[*translate.Revision][][]byte),
		place: place, told: &Edition{replaced: make(chan struct{})},
	}
	var list [][]byte
	var words []string
	for _, set := range all {
		for _, t := range set.Tools(grant) {
			if c.byName[t.Name] != nil {
				return nil, fmt.Errorf("two adapter tools have the name %s: set adapters.prefix or rename one", t.Name)
			}
			c.byName[t.Name] = set
			c.names = append(c.names, t.Name)
			list = append(list, t.JSON)
		}
		if text := set.Instructions(grant); text != "" {
			words = append(words, text)
		}
	}
	c.instructions = strings.Join(words, "\n\n")
	if len(c.instructions) > maxOwnInstructions {
		c.instructions = strings.ToValidUTF8(c.instructions[:maxOwnInstructions], "")
	}
	for _, r := range translate.All() {
		if err := c.write(table, r, bytes.Join(list, []byte{','})); err != nil {
			return nil, err
		}
	}
	c.index.Learn(appendToolsList(nil, nil, c.List(), ""), zap.NewNop())
	if was != nil && bytes.Equal(was.List(), c.List()) {
		c.told = was.told
	}
	return c, nil
}

// write translates the entries of tools/list for clients of a revision.
func (c *Catalog) write(table *translate.Table, r *translate.Revision, entries []byte) error {
	var m wire.Message
	t := table.Between(translate.Latest(), r)
	if err := m.Scan(appendToolsList(nil, []byte("0"), entries, ""), t.Shape()); err != nil {
		return fmt.Errorf("adapter tools: %w", err)
	}
	m.Method = wire.ToolsList
	out, _, err := t.Rewrite(nil, &m)
	if err != nil {
		return fmt.Errorf("adapter tools: %w", err)
	}
	c.listing[r] = nil
	for _, entry := range gjson.GetBytes(out, "result.tools").Array() {
		c.listing[r] = append(c.listing[r], []byte(entry.Raw))
	}
	return nil
}

// pageSize is how many own tools one page of tools/list has.
const pageSize = 200

// cursorPrefix is the beginning of cursors for pages of own tools. The rest is the last name of the
// page before, so that a cursor is also valid in another replica, and after a reload. No name follows in the cursor that
// stands for the server's empty one.
const cursorPrefix = "dragoman-tools-after:"

// page returns the entries for clients of r after the tool called after, "" for the first ones, and
// the cursor for the next page, "" for none. It returns false if there is no such tool.
func (c *Catalog) page(r *translate.Revision, after string) (entries []byte, cursor string, ok bool) {
	from := 0
	if after != "" {
		if from = slices.Index(c.names, after) + 1; from == 0 {
			return nil, "", false
		}
	}
	to := min(from+pageSize, len(c.names))
	if to < len(c.names) {
		cursor = cursorPrefix + c.names[to-1]
	}
	return bytes.Join(c.listing[r][from:to], []byte{','}), cursor, true
}

// appendToolsList appends a response to tools/list with these entries and the cursor for the next
// page, "" for none.
func appendToolsList(dst, id, entries []byte, cursor string) []byte {
	result := append([]byte(`{"tools":[`), entries...)
	result = append(result, ']')
	if cursor != "" {
		result = wire.AppendQuoted(append(result, `,"nextCursor":`...), cursor)
	}
	return mcp.AppendResult(dst, id, string(append(result, '}')))
}

// Edition identifies the list. A new catalog with the same list has the same edition.
func (c *Catalog) Edition() *Edition { return c.told }

// Anew gives the catalogs, one for each grant, editions of their own, so that all clients are told to list
// the tools again. It must not be called once c is in use. c may be nil.
func (c *Catalog) Anew() {
	if c == nil {
		return
	}
	c.told = &Edition{replaced: make(chan struct{})}
	for _, other := range c.others {
		other.Anew()
	}
}

// ReplacedBy is called when next, which may be nil, has taken the place of c. It closes the channels of
// [Edition.Replaced] of the catalogs, one for each grant, that have another edition now. c may be nil.
func (c *Catalog) ReplacedBy(next *Catalog) {
	if c == nil {
		return
	}
	if next == nil || c.told != next.told {
		close(c.told.replaced)
	}
	for grant, other := range c.others {
		other.ReplacedBy(next.For(grant))
	}
}

// List returns all entries of tools/list in [translate.Latest], joined with commas.
func (c *Catalog) List() []byte { return bytes.Join(c.listing[translate.Latest()], []byte{','}) }

// Find returns what is known of an own tool, and whether there is one of this name.
func (c *Catalog) Find(name string) (toolindex.Tool, bool) { return c.index.Find(name) }

// Of returns the source of an own tool; nil if there is no such tool.
func (c *Catalog) Of(name string) Source { return c.byName[name] }

// EndSession releases what the sources have kept for a session.
func (c *Catalog) EndSession(session string) {
	for _, set := range c.all {
		set.EndSession(session)
	}
}

// Named returns the name of the own tool that the params of tools/call name, or "". If the member
// name occurs twice, either may be the own tool's: such a call must not reach the server, which may
// read the other one.
func (c *Catalog) Named(params []byte) (name string) {
	gjson.ParseBytes(params).ForEach(func(key, value gjson.Result) bool {
		if key.Str == "name" && value.Type == gjson.String && c.byName[value.Str] != nil {
			name = value.Str
		}
		return name == ""
	})
	return strings.Clone(name)
}

// Extend removes tools with names of own tools from the server's response to tools/list, which is
// in the client's revision, and appends the own tools to the last page, so that the server's
// cursors stay valid. It calls hidden for each removed tool.
//
// If the page is the last one for the client and not for the server, its cursor becomes one that leads the client on: else some
// clients would never see the own tools, or, if the page had them, others would see them twice.
func (c *Catalog) Extend(page []byte, client, server *translate.Revision, hidden func(name string)) []byte {
	var m wire.Message
	if toolindex.ScanPage(&m, page) != nil {
		return page
	}
	result := m.Root().Get(wire.ResultKey)
	var tools wire.Node
	for list := result.First(); list.OK(); list = list.Next() {
		if list.Name() == wire.Tools && list.Kind() == '[' {
			tools = list
			c.hide(list, hidden)
		}
	}
	if !tools.OK() {
		return page
	}
	own, cursor, _ := c.page(client, "")
	if len(own) > 0 {
		switch next := nextOf(result); {
		case client.HasCursor(next):
			cursor = ""
		case server.HasCursor(next):
			cursor = cursorPrefix
		default:
			tools.Add(own)
		}
		setNext(result, cursor)
	}
	if !m.Edited() {
		return page
	}
	return m.AppendTo(make([]byte, 0, len(page)+len(own)+100))
}

// nextOf returns the cursor of a page as JSON, "" for none.
func nextOf(result wire.Node) (cursor string) {
	for n := result.First(); n.OK(); n = n.Next() {
		if n.Name() == wire.NextCursor {
			cursor = string(n.Raw())
		}
	}
	return cursor
}

// setNext sets the cursor of a page, unless it is "".
func setNext(result wire.Node, cursor string) {
	if cursor == "" {
		return
	}
	text, there := wire.AppendQuoted(nil, cursor), false
	for n := result.First(); n.OK(); n = n.Next() {
		if n.Name() == wire.NextCursor {
			n.Put(text)
			there = true
		}
	}
	if !there {
		result.Add(append([]byte(`"nextCursor":`), text...))
	}
}

func (c *Catalog) hide(list wire.Node, hidden func(name string)) {
	for t := list.First(); t.OK(); t = t.Next() {
		raw, ok := t.Get(wire.NameKey).Text()
		if !ok {
			continue
		}
		if name := string(wire.AppendUnescaped(nil, raw)); c.byName[name] != nil {
			t.Remove()
			hidden(name)
		}
	}
}

// shownFirst is how many bytes of instructions some clients show.
const shownFirst = 512

// Introduce adds the own tools to the server's response to initialize: the capability
// tools.listChanged, and the instructions. If these are to follow the server's, and their first line would not be within
// what all clients show, that line comes first.
func (c *Catalog) Introduce(answer []byte) ([]byte, error) {
	if c == nil {
		return answer, nil
	}
	out, err := sjson.SetBytes(answer, "result.capabilities.tools.listChanged", true)
	if err != nil || c.instructions == "" || c.place == "off" {
		return out, err
	}
	text := c.instructions
	if said := gjson.GetBytes(answer, "result.instructions").Str; said != "" {
		switch c.place {
		case "append":
			first, rest, _ := strings.Cut(text, "\n")
			if len(said)+len("\n\n")+len(first) <= shownFirst {
				text = said + "\n\n" + text
			} else if text = first + "\n\n" + said; rest != "" {
				text += "\n\n" + rest
			}
		case "prepend":
			text += "\n\n" + said
		}
	}
	return sjson.SetBytes(out, "result.instructions", text)
}
