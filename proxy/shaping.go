package proxy

import (
	"context"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/tidwall/gjson"
	"go.uber.org/zap"

	"github.com/dragoman-proxy/dragoman/proxy/config"
	"github.com/dragoman-proxy/dragoman/proxy/mcp"
	"github.com/dragoman-proxy/dragoman/transform"
	"github.com/dragoman-proxy/dragoman/translate/wire"
)

// Results are shaped for the model on their way to the client, after translation, so that
// the tokens are counted and cut in the result that this client gets.

// A shaping is all that follows from the configuration of transformations. It is
// immutable. It is nil if results are not shaped.
type shaping struct {
	config transform.Config
	engine *transform.Engine
	server string // the server's name in rules
}

// newShaping is nil where nothing is configured. was is what there was before, given
// are the rules that came with tools.
func newShaping(cfg config.Config, keys [][]byte, was *setup, given []transform.Rule) (*shaping, error) {
	settings := shapedBy(cfg.Transform, given)
	if settings == nil {
		return nil, nil
	}
	s := &shaping{config: *settings, server: cfg.Upstream.ServerName()}
	opt := transform.Options{Keys: keys, Given: given}
	if was != nil && was.shaping != nil {
		if was.shaping.config.Store == s.config.Store && reflect.DeepEqual(keys, was.keys) {
			opt.Store = was.shaping.engine.Store() // handles outlive a change of rules
		}
	}
	var err error
	s.engine, err = transform.New(s.config, opt)
	return s, err
}

// shapedBy returns the settings to use, or nil if results are not shaped. If there is no
// configuration of transformations, only the rules that came with tools apply.
func shapedBy(said *transform.Config, given []transform.Rule) *transform.Config {
	switch {
	case said != nil && said.Enabled:
		return said
	case said != nil || len(given) == 0:
		return nil
	}
	rulesOnly := transform.DefaultConfig()
	rulesOnly.DefaultMaxTokens, rulesOnly.AutoDetect = 0, "false"
	return &rulesOnly
}

// loadVocabularies loads the tokenizers' vocabularies in the background, so that the first large result need not
// wait. It also logs what the configuration implies.
func (srv *Server) loadVocabularies() {
	s := srv.now().shaping
	if s == nil {
		return
	}
	if !s.engine.Exact() {
		srv.host.Log.Warn("transform.adapters.capper.model has no public tokenizer: tokens are estimated, and rather too high",
			zap.String("model", s.config.Adapters.Capper.Model))
	}
	for _, name := range s.engine.ByShape() {
		srv.host.Log.Info("adapter reshapes every result of its form: name its tools in transform.adapters or in a rule, or set transform.auto_detect: false",
			zap.String("adapter", name))
	}
	srv.host.Spawn(func() {
		if err := s.engine.Load(); err != nil {
			srv.host.Log.Error("cannot load a tokenizer vocabulary", zap.Error(err))
		}
	})
}

// withMore returns own, and the tool that reads the rest of a cut result if there is one.
func (s *setup) withMore(own []ownTools) []ownTools {
	if s.shaping == nil || s.shaping.engine.MoreTool() == nil {
		return own
	}
	return append(slices.Clip(own), moreTool{s.shaping.engine})
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

// maxTokensHeader is the header with which a client may lower its budget for all calls of an HTTP
// request.
const maxTokensHeader = "X-Max-Tokens"

// wanted is what shaping must know about a request when its result comes.
type wanted struct {
	shaping   *shaping
	tool      string
	caller    string
	maxTokens int
	full      bool
	settled   transform.Name // the tool whose rule was already applied, except for its budget
}

// want notes what shaping must know about x's request. It does nothing if shaping is turned off.
func (x *exchange) want(m *wire.Message) {
	s := x.srv.now().shaping
	if s == nil || x.call == nil {
		return
	}
	switch m.Method {
	case wire.ToolsCall, wire.ResourcesRead, wire.PromptsGet:
	default:
		return
	}
	params := wire.View(m.Params())
	w := &wanted{shaping: s, caller: x.caller(), maxTokens: x.maxTokens}
	if m.Method == wire.ToolsCall {
		w.tool = strings.Clone(gjson.Get(params, "name").String())
	}
	if meta := gjson.Get(params, "_meta"); meta.IsObject() {
		if n := meta.Get("dragoman/max_tokens"); n.Type == gjson.Number && n.Num >= 1 {
			w.maxTokens = lower(w.maxTokens, int(min(n.Num, 1<<30)))
		}
		w.full = meta.Get("dragoman/detail").Str == "full"
	}
	x.call.More.wanted = w
	if x.ownCall != nil && x.ownCall.call != nil {
		x.ownCall.call.wanted = w
	}
}

// lower returns the lower of two budgets. 0 means no budget.
func lower(a, b int) int {
	if a == 0 || b > 0 && b < a {
		return b
	}
	return a
}

// hint returns the budget in the value of a header, or 0 if there is none.
func hint(value string) int {
	n, err := strconv.Atoi(strings.TrimSpace(value))
	if err != nil || n < 1 {
		return 0
	}
	return n
}

// shaped returns the result as the client gets it, which is out if there is nothing to shape.
// m is the message that out was translated from.
func (x *exchange) shaped(out []byte, m *wire.Message) []byte {
	s := x.srv.now().shaping
	if s == nil {
		return out
	}
	switch m.Method {
	case wire.ToolsList:
		return x.own(x.listed(s, out), out)
	case wire.ToolsCall, wire.ResourcesRead, wire.PromptsGet:
	default:
		return out
	}
	c := x.met
	if x.final {
		c = x.call
	}
	w := &wanted{shaping: s, maxTokens: x.maxTokens} // for a request that another process has taken
	if c != nil && c.More.wanted != nil {
		w = c.More.wanted
	} else {
		w.caller = x.caller()
	}
	if w.tool != "" && w.tool == w.shaping.engine.MoreName() && x.ownCall != nil {
		return out
	}
	call := transform.Call{
		Server: w.shaping.server, Tool: w.tool, Method: m.Method.String(),
		Session: x.s.who(), Caller: w.caller, MaxTokens: w.maxTokens, Full: w.full,
	}
	if w.settled != (transform.Name{}) {
		call.Server, call.Tool, call.Full = w.settled.Server, w.settled.Tool, true
	}
	if m.Method == wire.ToolsCall && !w.shaping.engine.Touches(call.Server, call.Tool) && w.maxTokens == 0 {
		return out
	}
	known := x.tool(w.tool)
	call.Schema, call.Schemas = known.OutputSchema()
	call.Narrowing = known.Narrowing()
	result, id := m.Result(), m.ID()
	if m.Edited() {
		var again wire.Message
		if again.Scan(out, nil) != nil {
			return out
		}
		result, id = again.Result(), again.ID() // the client's id, which may differ from the server's
	}
	began := time.Now()
	changed, report := w.shaping.engine.Apply(nil, result, &call)
	listed := call.Schemas != transform.Unknown || x.ownCall != nil
	x.srv.shapes.Note(x.log(), w.tool, listed, &report, time.Since(began))
	if len(changed) == 0 || &changed[0] == &result[0] {
		return out
	}
	return x.own(mcp.AppendResult(make([]byte, 0, len(changed)+len(id)+64), id, changed), out)
}

// caller returns a text that stands for the Authorization of the request, or "" if there is none.
func (x *exchange) caller() string {
	for _, h := range x.from {
		if strings.EqualFold(h.Name, "Authorization") {
			return callerOf(h.Value)
		}
	}
	return ""
}

// listed returns the response to tools/list with each outputSchema reduced as the rules reduce the
// results.
func (x *exchange) listed(s *shaping, page []byte) []byte {
	return editTools(page, func(tool []byte) []byte {
		out, err := s.engine.ListTool(nil, s.server, tool)
		if err != nil {
			x.srv.shapes.Conflict(x.srv.host.Log, err)
		}
		return out
	})
}
