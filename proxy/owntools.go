package proxy

import (
	"bytes"
	"context"
	"fmt"
	"strings"

	"github.com/tidwall/gjson"
	"github.com/tidwall/sjson"
	"go.uber.org/zap"

	"github.com/dragoman-proxy/dragoman/proxy/mcp"
	"github.com/dragoman-proxy/dragoman/proxy/toolindex"
	"github.com/dragoman-proxy/dragoman/proxy/upstream"
	"github.com/dragoman-proxy/dragoman/translate"
	"github.com/dragoman-proxy/dragoman/translate/wire"
)

// ownTools are tools that we serve ourselves, beside the server's or without one.
// All that they say is of [translate.Latest], and is translated for the client as
// a server's words are. The methods are safe for concurrent use.
type ownTools interface {
	// Tools are their definitions, in an order that stays. Nobody changes them.
	Tools() []ownTool
	// Call answers a call of one of them with a CallToolResult, which is the
	// caller's. It returns soon after ctx ends: when the client leaves or cancels.
	Call(ctx context.Context, c *toolCall) []byte
	// Instructions is what a model should know of them, "" for nothing.
	Instructions() string
	// EndSession forgets what was kept for a session.
	EndSession(session string)
}

// ownTool is one of them: its name and its entry in tools/list.
type ownTool struct {
	Name string
	JSON []byte
}

// ownCall is one call of a tool of ours. Its slices are the exchange's and live as
// long as the call.
type toolCall struct {
	Tool      string
	Arguments []byte            // as they came; nil for none
	Session   string            // only its client knows it
	Caller    string            // stands for the Authorization of the request, "" for none
	Header    []upstream.Header // what belongs to the trace of the request

	// wanted is what shaping the result needs; nil where nothing is shaped.
	wanted *wanted

	// Ask asks the user to agree to something; nil where no user can be asked. An
	// error says that there was no answer, and is not for the user to be blamed.
	Ask func(ctx context.Context, message string) (agreed bool, err error)
	// Send sends the user to a page, with a word about it; nil where no page can be shown,
	// or what is done there would count for others, too.
	Send func(ctx context.Context, message, page string) (agreed bool, err error)
	// Progress tells the client how many parts of the answer there are so far, and of the
	// newest; nil where the client has not asked for it.
	Progress func(parts int, newest string)
}

// maxOwnInstructions bounds what all our tools together say in the answer to
// initialize, in bytes.
const maxOwnInstructions = 2048

// catalog is what all tools of ours come to, worked out once. It does not change.
type catalog struct {
	all          []ownTools
	byName       map[string]ownTools
	listing      map[*translate.Revision][]byte // entries of tools/list between commas
	instructions string
	index        toolindex.Index
	place        string       // of our instructions in the server's
	told         *listEdition // what sessions were told of
}

// edition is a list of tools that clients have seen.
type listEdition struct {
	replaced chan struct{} // closed when there is another one
}

// newCatalog is the catalog of all, nil where there are none and never were. Two tools of one
// name are an error: nobody could say which is meant. was is what there was
// before.
func newCatalog(table *translate.Table, all []ownTools, place string, was *catalog) (*catalog, error) {
	if len(all) == 0 && was == nil {
		return nil, nil
	}
	c := &catalog{
		all: all, byName: make(map[string]ownTools), listing: make(map[*translate.Revision][]byte),
		place: place, told: &listEdition{replaced: make(chan struct{})},
	}
	var list [][]byte
	var words []string
	for _, set := range all {
		for _, t := range set.Tools() {
			if c.byName[t.Name] != nil {
				return nil, fmt.Errorf("two adapter tools have the name %s: set adapters.prefix or rename one", t.Name)
			}
			c.byName[t.Name] = set
			list = append(list, t.JSON)
		}
		if text := set.Instructions(); text != "" {
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
	c.index.Learn(appendToolsList(nil, nil, c.listing[translate.Latest()]), zap.NewNop())
	if was != nil && bytes.Equal(was.listing[translate.Latest()], c.listing[translate.Latest()]) {
		c.told = was.told
	}
	return c, nil
}

// write translates the entries of tools/list for clients of a revision.
func (c *catalog) write(table *translate.Table, r *translate.Revision, entries []byte) error {
	var m wire.Message
	t := table.Between(translate.Latest(), r)
	if err := m.Scan(appendToolsList(nil, []byte("0"), entries), t.Shape()); err != nil {
		return fmt.Errorf("adapter tools: %w", err)
	}
	m.Method = wire.ToolsList
	out, _, err := t.Rewrite(nil, &m)
	if err != nil {
		return fmt.Errorf("adapter tools: %w", err)
	}
	list := gjson.GetBytes(out, "result.tools").Raw
	c.listing[r] = bytes.Clone(bytes.TrimSpace([]byte(list[1 : len(list)-1])))
	return nil
}

// appendToolsList appends an answer to tools/list with nothing but entries.
func appendToolsList(dst, id, entries []byte) []byte {
	return mcp.AppendResult(dst, id, `{"tools":[`+string(entries)+`]}`)
}

// named is the name of a tool of ours that the params of a tools/call hold, "" when
// they hold none. Where a name comes twice one of ours is enough: the server must
// not get such a call, whichever of the two it would take.
func (c *catalog) named(params []byte) (name string) {
	gjson.ParseBytes(params).ForEach(func(key, value gjson.Result) bool {
		if key.Str == "name" && value.Type == gjson.String && c.byName[value.Str] != nil {
			name = value.Str
		}
		return name == ""
	})
	return strings.Clone(name)
}

// listShape is what extend looks at in an answer to tools/list.
var listShape = func() *wire.Shape {
	s := new(wire.Shape)
	s.At(wire.ParsePath("result.nextCursor")...)
	s.At(wire.ParsePath("result.tools[].name")...)
	return s
}()

// extend takes tools with names of ours out of the server's answer to tools/list,
// which is in the client's revision already, and puts ours behind the last page, so
// that the server's cursors pass untouched. hidden is called for each that was
// taken out.
func (c *catalog) extend(page []byte, r *translate.Revision, hidden func(name string)) []byte {
	var m wire.Message
	if m.Scan(page, listShape) != nil {
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
	next := result.Get(wire.NextCursor)
	if own := c.listing[r]; len(own) > 0 && (!next.OK() || next.Hollow()) {
		tools.Add(own)
	}
	if !m.Edited() {
		return page
	}
	return m.AppendTo(make([]byte, 0, len(page)+len(c.listing[r])+1))
}

func (c *catalog) hide(list wire.Node, hidden func(name string)) {
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

// introduce puts our tools into the server's answer to initialize: that there are
// tools, that their list may change, and what a model should know of them.
func (c *catalog) introduce(answer []byte) ([]byte, error) {
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
			text = said + "\n\n" + text
		case "prepend":
			text += "\n\n" + said
		}
	}
	return sjson.SetBytes(out, "result.instructions", text)
}

// withOurs is the server's answer to tools/list with our tools in it.
func (x *exchange) withOurs(page []byte, method wire.Method) []byte {
	own := x.srv.now().own
	if own == nil || method != wire.ToolsList {
		return page
	}
	var clashing []string
	out := own.extend(page, x.s.ClientRevision, func(name string) {
		if x.srv.now().collides(own.byName[name]) {
			clashing = append(clashing, name)
		} else {
			x.srv.noteCollision(name)
		}
	})
	if clashing != nil {
		out = x.hideCollisions(page, clashing)
	}
	return x.own(out, page)
}

// shadowed notes that a tool of the server has the name of one of ours, aloud once.
func (srv *Server) noteCollision(name string) {
	srv.metrics.Shadowed.WithLabelValues(name).Inc()
	if _, seen := srv.shadows.LoadOrStore(name, true); !seen {
		srv.host.Log.Warn("a server tool has the name of an adapter tool: clients get the adapter tool", zap.String("tool", name))
	}
}

// forgetOwn lets go of what our tools kept for a session.
func (srv *Server) forgetOwn(s *session) {
	for _, set := range srv.now().own.all {
		set.EndSession(s.who())
	}
}
