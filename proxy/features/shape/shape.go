// Package shape shortens results for the model on their way to the client: it applies package
// transform after translation, so that the tokens are counted and cut in the result that this
// client gets. A client may lower the budget of a call with a header or in the call's _meta.
package shape

import (
	"reflect"
	"strconv"
	"strings"
	"time"

	"github.com/tidwall/gjson"
	"go.uber.org/zap"

	"github.com/dragoman-proxy/dragoman/proxy/config"
	"github.com/dragoman-proxy/dragoman/proxy/ops/host"
	"github.com/dragoman-proxy/dragoman/proxy/ops/metrics"
	"github.com/dragoman-proxy/dragoman/proxy/protocol/mcp"
	"github.com/dragoman-proxy/dragoman/proxy/protocol/toolindex"
	"github.com/dragoman-proxy/dragoman/proxy/store"
	"github.com/dragoman-proxy/dragoman/transform"
	"github.com/dragoman-proxy/dragoman/translate/wire"
)

// Shaping is all that follows from the configuration of transformations. It is immutable. A nil
// Shaping shapes nothing.
type Shaping struct {
	// Engine applies the rules.
	Engine *transform.Engine
	// Server is the server's name in rules.
	Server string

	config transform.Config
	keys   [][]byte
	counts *metrics.Results
	shared *originals // nil if originals are kept in this process only
}

// New returns the shaping that cfg asks for; nil if results are not shaped. keys seal the handles of
// the parts that were cut. given are the rules of adapter files. was is the shaping that the new one
// replaces, or nil: its handles stay valid if the store's settings and the keys are the same. counts
// counts each shaped result. replicas is the store that replicas share, or nil.
func New(cfg config.Config, keys [][]byte, given []transform.Rule, was *Shaping, counts *metrics.Results, replicas *store.Store) (*Shaping, error) {
	settings := settingsOf(cfg.Transform, given)
	if settings == nil {
		return nil, nil
	}
	s := &Shaping{config: *settings, Server: cfg.Upstream.ServerName(), keys: keys, counts: counts}
	opt := transform.Options{Keys: keys, Given: given}
	if was != nil {
		s.shared = was.shared
	} else {
		s.shared = newOriginals(replicas)
	}
	if s.shared != nil {
		opt.Replicas, opt.Beside = s.shared, s.shared.beside
	}
	if was != nil && was.config.Store == s.config.Store && reflect.DeepEqual(keys, was.keys) {
		opt.Store = was.Engine.Store()
	}
	var err error
	s.Engine, err = transform.New(s.config, opt)
	return s, err
}

// settingsOf returns the settings to use, or nil if results are not shaped. If there is no
// configuration of transformations, only the rules that came with tools apply.
func settingsOf(said *transform.Config, given []transform.Rule) *transform.Config {
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

// Load loads the tokenizers' vocabularies in the background, so that the first large result need
// not wait. It also logs what the configuration implies.
func (s *Shaping) Load(h *host.Host) {
	if s == nil {
		return
	}
	if s.shared != nil {
		s.shared.host.Store(h)
	}
	if !s.Engine.Exact() {
		h.Log.Warn("transform.adapters.capper.model has no public tokenizer: tokens are estimated, and rather too high",
			zap.String("model", s.config.Adapters.Capper.Model))
	}
	for _, name := range s.Engine.ByShape() {
		h.Log.Info("adapter reshapes every result of its form: name its tools in transform.adapters or in a rule, or set transform.auto_detect: false",
			zap.String("adapter", name))
	}
	h.Spawn(func() {
		if err := s.Engine.Load(); err != nil {
			h.Log.Error("cannot load a tokenizer vocabulary", zap.Error(err))
		}
	})
}

// BudgetHeader is the header with which a client may lower its budget for all calls of an HTTP
// request.
const BudgetHeader = "X-Max-Tokens"

// Budget returns the budget in tokens in the value of a [BudgetHeader], or 0 if there is none.
func Budget(value string) int {
	n, err := strconv.Atoi(strings.TrimSpace(value))
	if err != nil || n < 1 {
		return 0
	}
	return n
}

// lower returns the lower of two budgets. 0 means no budget.
func lower(a, b int) int {
	if a == 0 || b > 0 && b < a {
		return b
	}
	return a
}

// Wanted is what the shaping must know about a request when its result comes.
type Wanted struct {
	// Shaping is the one that was in force when the request came.
	Shaping *Shaping
	// Tool is the tool that is called; "" for other requests.
	Tool string
	// Caller stands for the request's Authorization; "" for none.
	Caller string
	// MaxTokens is the budget that the client asked for; 0 for none.
	MaxTokens int
	// Full says that the client wants the whole result, if that fits the budget.
	Full bool
	// Structured says that the client's revision has structured content.
	Structured bool
	// Settled is the tool whose rule was already applied, except for its budget; zero for none.
	Settled transform.Name
}

// Want returns what the shaping must know about the request m. It returns nil if s is nil or if
// such results are not shaped. caller stands for the request's Authorization, and is called only
// if needed. maxTokens is the budget of the request's [BudgetHeader]. m may be reused afterwards.
func (s *Shaping) Want(m *wire.Message, caller func() string, maxTokens int) *Wanted {
	if s == nil || !shapes(m.Method) {
		return nil
	}
	params := wire.View(m.Params())
	w := &Wanted{Shaping: s, Caller: caller(), MaxTokens: maxTokens}
	if m.Method == wire.ToolsCall {
		w.Tool = strings.Clone(gjson.Get(params, "name").String())
	}
	if meta := gjson.Get(params, "_meta"); meta.IsObject() {
		if n := meta.Get("dragoman/max_tokens"); n.Type == gjson.Number && n.Num >= 1 {
			w.MaxTokens = lower(w.MaxTokens, int(min(n.Num, 1<<30)))
		}
		w.Full = meta.Get("dragoman/detail").Str == "full"
	}
	return w
}

// shapes reports whether the results of a method are shaped.
func shapes(m wire.Method) bool {
	return m == wire.ToolsCall || m == wire.ResourcesRead || m == wire.PromptsGet
}

// NeedsSchema reports whether shaping the result of a call needs the tool's outputSchema. w may
// be nil.
func (w *Wanted) NeedsSchema() bool {
	return w != nil && (w.MaxTokens != 0 || w.Shaping.Engine.Touches(w.Shaping.Server, w.Tool))
}

// Exchange is the exchange that a result belongs to.
type Exchange interface {
	// Session is known only to the session's client.
	Session() string
	// Caller stands for the request's Authorization; "" for none.
	Caller() string
	// MaxTokens is the budget of the request's header; 0 for none.
	MaxTokens() int
	// Own reports whether dragoman answers the request itself.
	Own() bool
	// Tool returns what is known of a tool that the client may call.
	Tool(name string) toolindex.Tool
	// Log returns the logger for lines about the exchange.
	Log() *zap.Logger
	// Counted notes how many tokens the result has as it came, and as the client gets it.
	Counted(before, after int)
}

// Result returns a response as the client gets it. out is the response in the client's revision;
// it is returned itself if there is nothing to shape. m is the message that out was translated
// from. w is what [Shaping.Want] returned for the request; nil if another process has taken the
// request. s may be nil.
func (s *Shaping) Result(out []byte, m *wire.Message, w *Wanted, of Exchange) []byte {
	if s == nil || !shapes(m.Method) {
		return out
	}
	if w == nil {
		w = &Wanted{Shaping: s, MaxTokens: of.MaxTokens(), Caller: of.Caller()}
	}
	if of.Own() && w.Tool != "" && w.Tool == w.Shaping.Engine.MoreName() {
		return out
	}
	call := transform.Call{
		Server: w.Shaping.Server, Tool: w.Tool, Method: m.Method.String(),
		Session: of.Session(), Caller: w.Caller, MaxTokens: w.MaxTokens, Full: w.Full,
	}
	if w.Settled != (transform.Name{}) {
		call.Server, call.Tool, call.Full, call.Settled = w.Settled.Server, w.Settled.Tool, true, true
	}
	if m.Method == wire.ToolsCall && !w.Shaping.Engine.Touches(call.Server, call.Tool) && w.MaxTokens == 0 {
		return out
	}
	known := of.Tool(w.Tool)
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
	changed, report := w.Shaping.Engine.Apply(nil, result, &call)
	s.counts.Note(of.Log(), w.Tool, of.Own() || call.Schemas != transform.Unknown, &report, time.Since(began))
	if report.TokensBefore > 0 {
		of.Counted(report.TokensBefore, report.TokensAfter)
	}
	if len(changed) == 0 || &changed[0] == &result[0] {
		return out
	}
	return mcp.AppendResult(make([]byte, 0, len(changed)+len(id)+64), id, changed)
}

// List returns the response to tools/list with each outputSchema reduced as the rules reduce the
// results. It returns page itself if nothing changes. s may be nil.
func (s *Shaping) List(page []byte, log *zap.Logger) []byte {
	if s == nil {
		return page
	}
	return toolindex.Edit(page, func(tool []byte) []byte {
		out, err := s.Engine.ListTool(nil, s.Server, tool)
		if err != nil {
			s.counts.Conflict(log, err)
		}
		return out
	})
}

// Note counts and logs what was done with a result that was shaped by [Shaping.Engine] itself.
func (s *Shaping) Note(log *zap.Logger, tool string, report *transform.Report, took time.Duration) {
	s.counts.Note(log, tool, true, report, took)
}
