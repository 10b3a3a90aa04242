package proxy

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/tidwall/gjson"
	"github.com/tidwall/sjson"
	"go.uber.org/zap"

	"github.com/dragoman-proxy/dragoman/proxy/mcp"
	"github.com/dragoman-proxy/dragoman/proxy/shape"
	"github.com/dragoman-proxy/dragoman/proxy/toolindex"
	"github.com/dragoman-proxy/dragoman/proxy/upstream"
	"github.com/dragoman-proxy/dragoman/transform"
	"github.com/dragoman-proxy/dragoman/translate"
	"github.com/dragoman-proxy/dragoman/translate/wire"
)

// ownTools are tools that dragoman serves itself, in addition to the server's or without a server.
// They use [translate.Latest]; their messages are translated for the client like a server's. The
// methods are safe for concurrent use.
type ownTools interface {
	// Tools returns the tools, in a constant order. The result must not be modified.
	Tools() []ownTool
	// Call answers a call of one of the tools with a CallToolResult, which the caller owns. It
	// returns soon after ctx ends because the client has left or cancelled.
	Call(ctx context.Context, c *toolCall) []byte
	// Instructions returns what a model should know of the tools, or "".
	Instructions() string
	// EndSession releases what was kept for a session.
	EndSession(session string)
}

// ownTool is one of the tools: its name and its entry in tools/list.
type ownTool struct {
	Name string
	JSON []byte
}

// toolCall is a call of one of dragoman's own tools. Its slices belong to the exchange and are
// valid during the call.
type toolCall struct {
	Tool      string
	Arguments []byte            // as they came; nil if there are none
	Session   string            // known only to the session's client
	Caller    string            // stands for the request's Authorization; "" for none
	Header    []upstream.Header // the headers with the request's trace

	// wanted is what shaping needs for the result; nil if the result is not shaped.
	wanted *shape.Wanted

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

// maxOwnInstructions bounds the instructions of all own tools together, in bytes.
const maxOwnInstructions = 2048

// catalog is an immutable list of dragoman's own tools, prepared for clients of each revision.
type catalog struct {
	all          []ownTools
	byName       map[string]ownTools
	listing      map[*translate.Revision][]byte // the entries of tools/list, joined with commas
	instructions string
	index        toolindex.Index
	place        string       // where the instructions are placed relative to the server's
	told         *listEdition // identifies the list that sessions were sent
}

// listEdition identifies a list of own tools that clients have received.
type listEdition struct {
	replaced chan struct{} // closed when another list replaces this one
}

// newCatalog makes the catalog of these tools. It returns nil if there are none and were none
// before. Two tools with one name are an error. was is the previous catalog, or nil.
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

// appendToolsList appends a response to tools/list with these entries only.
func appendToolsList(dst, id, entries []byte) []byte {
	return mcp.AppendResult(dst, id, `{"tools":[`+string(entries)+`]}`)
}

// named returns the name of the own tool that the params of tools/call name, or "". If the member
// name occurs twice, either may be the own tool's: such a call must not reach the server, which may
// read the other one.
func (c *catalog) named(params []byte) (name string) {
	gjson.ParseBytes(params).ForEach(func(key, value gjson.Result) bool {
		if key.Str == "name" && value.Type == gjson.String && c.byName[value.Str] != nil {
			name = value.Str
		}
		return name == ""
	})
	return strings.Clone(name)
}

// extend removes tools with names of own tools from the server's response to tools/list, which is
// in the client's revision, and appends the own tools to the last page, so that the server's
// cursors stay valid. It calls hidden for each removed tool.
func (c *catalog) extend(page []byte, r *translate.Revision, hidden func(name string)) []byte {
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

// introduce adds the own tools to the server's response to initialize: the capability
// tools.listChanged, and the instructions.
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

// withOurs adds dragoman's own tools to the server's response to tools/list.
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

// noteCollision counts that a server's tool was hidden, since an own tool has its name. It logs
// each name once.
func (srv *Server) noteCollision(name string) {
	srv.metrics.Shadowed.WithLabelValues(name).Inc()
	if _, seen := srv.shadows.LoadOrStore(name, true); !seen {
		srv.host.Log.Warn("a server tool has the name of an adapter tool: clients get the adapter tool", zap.String("tool", name))
	}
}

// forgetOwn releases what dragoman's own tools kept for a session.
func (srv *Server) forgetOwn(s *session) {
	for _, set := range srv.now().own.all {
		set.EndSession(s.who())
	}
}

// withMore returns own, and the tool that reads the rest of a cut result if there is one.
func (s *setup) withMore(own []ownTools) []ownTools {
	if s.shaping == nil || s.shaping.Engine.MoreTool() == nil {
		return own
	}
	return append(slices.Clip(own), moreTool{s.shaping.Engine})
}

// A moreTool is the tool that reads the rest of a cut result.
type moreTool struct{ engine *transform.Engine }

func (m moreTool) Tools() []ownTool {
	return []ownTool{{m.engine.MoreName(), m.engine.MoreTool()}}
}

func (m moreTool) Call(_ context.Context, c *toolCall) []byte {
	return m.engine.More(c.Session, c.Caller, c.Arguments)
}

func (moreTool) Instructions() string { return "" }

// EndSession does nothing: what is kept is bound to the session and expires by itself.
func (moreTool) EndSession(string) {}
