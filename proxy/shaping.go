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

// Results are made fit for the model on their way to the client, after they were
// translated: what is counted and cut is what this client gets.

// shaping is all that follows from the configuration of transformations. It does
// not change; nil does nothing.
type shaping struct {
	config transform.Config
	engine *transform.Engine
	server string // what rules know the server by
}

// newShaping is nil where nothing is configured. was is what there was before, given
// are rules that came with tools.
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

// shapedBy are the settings that count; nil for none. Where the configuration says
// nothing of results, the rules that came with tools are followed, and nothing else is
// done.
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

// warm loads the vocabularies, so that the first large result need not wait.
func (srv *Server) loadVocabularies() {
	s := srv.now().shaping
	if s == nil {
		return
	}
	if !s.engine.Exact() {
		srv.log.Warn("transform.adapters.capper.model has no public tokenizer: tokens are an estimate on the safe side",
			zap.String("model", s.config.Adapters.Capper.Model))
	}
	for _, name := range s.engine.ByShape() {
		srv.log.Info("this adapter takes results by their shape; tools in transform.adapters or a rule say which, transform.auto_detect: false ends it",
			zap.String("adapter", name))
	}
	srv.spawn(func() {
		if err := s.engine.Load(); err != nil {
			srv.log.Error("vocabulary", zap.Error(err))
		}
	})
}

// withMore is own, and the tool that reads on in what was cut.
func (s *setup) withMore(own []ownTools) []ownTools {
	if s.shaping == nil || s.shaping.engine.MoreTool() == nil {
		return own
	}
	return append(slices.Clip(own), moreTool{s.shaping.engine})
}

// moreTool reads on in what was cut.
type moreTool struct{ engine *transform.Engine }

func (m moreTool) Tools() []ownTool {
	return []ownTool{{m.engine.MoreName(), m.engine.MoreTool()}}
}

func (m moreTool) Call(_ context.Context, c *toolCall) []byte {
	return m.engine.More(c.Session, c.Caller, c.Arguments)
}

func (moreTool) Instructions() string { return "" }

// EndSession has nothing to do: what was kept is bound to the session and ends
// with its time.
func (moreTool) EndSession(string) {}

// maxTokensHeader is how a client may lower its budget for all calls of a
// request.
const maxTokensHeader = "X-Max-Tokens"

// wanted is what has to be known of a request when its result comes.
type wanted struct {
	shaping   *shaping
	tool      string
	caller    string
	maxTokens int
	full      bool
	settled   transform.Name // whose rule was done already: only its budget is left
}

// want notes what shaping x's request needs; nothing where there is none.
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
	params := view(m.Params())
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

// lower is the lower of two budgets, 0 being none.
func lower(a, b int) int {
	if a == 0 || b > 0 && b < a {
		return b
	}
	return a
}

// hint reads the budget that a header names, 0 for none.
func hint(value string) int {
	n, err := strconv.Atoi(strings.TrimSpace(value))
	if err != nil || n < 1 {
		return 0
	}
	return n
}

// shaped is a result as the client shall get it: out, when nothing has to be done.
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
	w := &wanted{shaping: s, maxTokens: x.maxTokens} // another process was asked
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
		result, id = again.Result(), again.ID() // the client's id, which may not be the server's
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

// caller stands for the Authorization of the request, "" for none.
func (x *exchange) caller() string {
	for _, h := range x.from {
		if strings.EqualFold(h.Name, "Authorization") {
			return callerOf(h.Value)
		}
	}
	return ""
}

// listed is an answer to tools/list in which outputSchema is what the rules leave
// of it.
func (x *exchange) listed(s *shaping, page []byte) []byte {
	return editTools(page, func(tool []byte) []byte {
		out, err := s.engine.ListTool(nil, s.server, tool)
		if err != nil {
			x.srv.shapes.Conflict(x.srv.log, err)
		}
		return out
	})
}
