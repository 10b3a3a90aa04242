package proxy

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"github.com/tidwall/gjson"
	"github.com/tidwall/sjson"
	"go.uber.org/zap"

	"github.com/dragoman-proxy/dragoman/proxy/config"
	"github.com/dragoman-proxy/dragoman/proxy/mcp"
	"github.com/dragoman-proxy/dragoman/proxy/owntools"
	"github.com/dragoman-proxy/dragoman/proxy/toolindex"
	"github.com/dragoman-proxy/dragoman/proxy/upstream"
	"github.com/dragoman-proxy/dragoman/transform/footprint"
	"github.com/dragoman-proxy/dragoman/translate/wire"
)

// newShrinker returns a Shrinker that removes the parts of tools that c.Drop names.
func newShrinker(c *config.Footprint) footprint.Shrinker {
	has := func(name string) bool { return slices.Contains(c.Drop, name) }
	return footprint.Shrinker{
		Titles: has("titles"), Echoes: has("echoes"), Examples: has("examples"),
		SchemaNames: has("schema_names"), OutputSchema: has("output_schema"),
	}
}

// toolsFootprint holds the size of the tool list that a session's client has received, and how it
// is reduced.
type toolsFootprint struct {
	notes        footprint.Notes // the texts that moved to the instructions; set before the session is used
	instructions int             // the size of the instructions in bytes; set before the session is used
	// greeted says that the server has already received notifications/initialized.
	greeted bool

	mu    sync.Mutex
	bytes int // the size of the pages so far
	whole bool
	tight bool // the list was too large: its tools are reduced from now on
}

// enforceFootprint returns an error if dragoman's own tools alone exceed the size limit of the
// list.
func enforceFootprint(c *config.Footprint, own *owntools.Catalog) error {
	if !c.Enforce || c.MaxBytes == 0 || own == nil {
		return nil
	}
	n := compactLen("[" + string(own.List()) + "]")
	if n <= int(c.MaxBytes) {
		return nil
	}
	return fmt.Errorf("footprint.enforce: adapter tools take %d bytes of the tool list, max_bytes is %d: serve fewer adapters", n, int(c.MaxBytes))
}

// hoist reads the server's tools before the client receives the response to initialize, and moves
// texts that several tools repeat into the response's instructions. If anything fails, the response
// is unchanged.
func (h *handshake) hoist(ctx context.Context, s *session, answer []byte) []byte {
	how := h.srv.now().cfg.Footprint.Hoist
	if how != "report" && how != "apply" || !s.Facts.Has(wire.ServerTools) {
		return answer
	}
	tools, err := h.readTools(ctx, s)
	if err != nil {
		h.log().Warn("cannot read the server's tools to find repeated descriptions", zap.Error(err))
		return answer
	}
	said := gjson.GetBytes(answer, "result.instructions").Str
	notes, saving, err := footprint.Hoist(tools, len(said))
	if err != nil || saving.After == saving.Before {
		return answer
	}
	sizes := []zap.Field{zap.String("hoist", how), zap.Int("texts", len(notes)), zap.Int("bytes_before", saving.Before), zap.Int("bytes_after", saving.After)}
	if len(notes) == 0 {
		h.log().Info("tool descriptions repeat text, but moving it to the instructions would save less than 5 %", sizes...)
		return answer
	}
	h.log().Info("tool descriptions repeat text", sizes...)
	if how == "report" {
		return answer
	}
	out, err := sjson.SetBytes(answer, "result.instructions", notes.Instructions(said))
	if err != nil {
		return answer
	}
	s.catalogue.notes = notes
	return out
}

// readTools reads all pages of the server's tools. It sends notifications/initialized first; the
// client's own notification is then not sent to the server.
func (h *handshake) readTools(ctx context.Context, s *session) ([][]byte, error) {
	if s.catalogue.greeted {
		return h.tools, nil // read by an earlier caller
	}
	id := h.ID
	defer func() { h.ID = id }()
	initialized := mcp.Notification(wire.Initialized, "")
	if _, err := h.Conn.Send(ctx, &upstream.Outgoing{Body: initialized, Header: h.Header}); err != nil {
		return nil, err
	}
	s.catalogue.greeted = true
	tools := allLists()[0]
	p := &probeClient{srv: h.srv, h: h}
	if err := p.all(ctx, &tools); err != nil {
		return nil, err
	}
	for _, item := range tools.items {
		h.tools = append(h.tools, []byte(item))
	}
	return h.tools, nil
}

// slimmed returns a response to tools/list with its tools reduced as the configuration says. page
// is in the client's revision.
func (x *exchange) slimmed(page []byte) []byte {
	page = x.shrunk(page, x.s.catalogue.notes, x.srv.now().shrink)
	if x.isTight(page) {
		page = x.shrunk(page, nil, footprint.Shrinker{Titles: true, Echoes: true, SchemaNames: true})
	}
	x.weigh(page)
	return page
}

func (x *exchange) shrunk(page []byte, notes footprint.Notes, shrink footprint.Shrinker) []byte {
	if shrink == (footprint.Shrinker{}) && len(notes) == 0 {
		return page
	}
	return x.own(toolindex.Edit(page, func(tool []byte) []byte {
		out, err := notes.Apply(nil, tool)
		if err != nil {
			return tool
		}
		if out, err = shrink.Apply(nil, out); err != nil {
			return tool
		}
		return out
	}), page)
}

// isTight reports whether the list is too large with this page and footprint.enforce is set.
func (x *exchange) isTight(page []byte) bool {
	cfg := &x.srv.now().cfg.Footprint
	if !cfg.Enforce || cfg.MaxBytes == 0 {
		return false
	}
	c := &x.s.catalogue
	c.mu.Lock()
	defer c.mu.Unlock()
	n := c.instructions + compactLen(gjson.Get(wire.View(page), "result.tools").Raw)
	if !c.whole {
		n += c.bytes
	}
	c.tight = c.tight || n > int(cfg.MaxBytes)
	return c.tight
}

// weigh measures the tool list that a session's client reads first.
func (x *exchange) weigh(page []byte) {
	c := &x.s.catalogue
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.whole {
		return
	}
	result := gjson.Get(wire.View(page), "result")
	c.bytes += compactLen(result.Get("tools").Raw)
	if result.Get("nextCursor").String() != "" {
		c.bytes-- // `][` between two pages becomes a comma
		return
	}
	c.whole = true
	x.srv.metrics.ToolsList.Set(float64(c.bytes))
	all := c.bytes + c.instructions
	if most := x.srv.now().cfg.Footprint.MaxBytes; most > 0 && all > int(most) && x.srv.heavy.CompareAndSwap(false, true) {
		x.log().Warn("tool list and instructions are large, and every conversation includes them: run dragoman footprint to see the largest",
			zap.Int("bytes", all), zap.Int("instructions", c.instructions), zap.Int("max_bytes", int(most)))
	}
}

// compactLen returns the length of a JSON value without white space between its tokens.
func compactLen(value string) (n int) {
	inString := false
	for i := 0; i < len(value); i++ {
		switch c := value[i]; {
		case c == '"':
			inString = !inString
		case c == '\\':
			i++
			n++
		case !inString && c <= ' ':
			n--
		}
		n++
	}
	return n
}
