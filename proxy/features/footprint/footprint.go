// Package footprint reduces the tokens that a server's list of tools takes in every conversation: it
// shortens the list on its way to the client, moves texts that several tools repeat to the
// instructions, and measures what a client has received. Package transform/footprint has the
// reductions themselves.
package footprint

import (
	"fmt"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/tidwall/gjson"
	"github.com/tidwall/sjson"
	"go.uber.org/zap"

	"github.com/dragoman-proxy/dragoman/proxy/config"
	"github.com/dragoman-proxy/dragoman/proxy/protocol/toolindex"
	"github.com/dragoman-proxy/dragoman/transform/footprint"
	"github.com/dragoman-proxy/dragoman/translate"
	"github.com/dragoman-proxy/dragoman/translate/wire"
)

// Policy says how lists of tools are reduced, as configured. It is immutable.
type Policy struct {
	cfg    config.Footprint
	shrink footprint.Shrinker
}

// NewPolicy returns the policy of cfg.
func NewPolicy(cfg *config.Footprint) *Policy {
	has := func(name string) bool { return slices.Contains(cfg.Drop, name) }
	return &Policy{*cfg, footprint.Shrinker{
		Titles: has("titles"), Echoes: has("echoes"), Examples: has("examples"),
		SchemaNames: has("schema_names"), OutputSchema: has("output_schema"),
	}}
}

// Admit returns an error if footprint.enforce is set and dragoman's own tools alone exceed the size
// limit of the list. own are their entries, joined with commas.
func (p *Policy) Admit(own []byte) error {
	if !p.enforced() {
		return nil
	}
	n := compactLen("[" + string(own) + "]")
	if n <= int(p.cfg.MaxBytes) {
		return nil
	}
	return fmt.Errorf("footprint.enforce: adapter tools take %d bytes of the tool list, max_bytes is %d: serve fewer adapters", n, int(p.cfg.MaxBytes))
}

func (p *Policy) enforced() bool { return p.cfg.Enforce && p.cfg.MaxBytes > 0 }

// Hoists reports whether [Policy.Hoist] needs the server's tools before the client receives the
// response to initialize.
func (p *Policy) Hoists() bool { return p.cfg.Hoist == "report" || p.cfg.Hoist == "apply" }

// Hoist moves texts that several tools repeat into the instructions of answer, the response to
// initialize, and notes them in l. If anything fails, or if the policy only reports, it returns
// answer itself.
func (p *Policy) Hoist(l *List, tools [][]byte, answer []byte, log *zap.Logger) []byte {
	said := gjson.GetBytes(answer, "result.instructions").Str
	notes, saving, err := footprint.Hoist(tools, len(said))
	if err != nil || saving.After == saving.Before {
		return answer
	}
	sizes := []zap.Field{zap.String("hoist", p.cfg.Hoist), zap.Int("texts", len(notes)), zap.Int("bytes_before", saving.Before), zap.Int("bytes_after", saving.After)}
	if len(notes) == 0 {
		log.Info("tool descriptions repeat text, but moving it to the instructions would save less than 5 %", sizes...)
		return answer
	}
	log.Info("tool descriptions repeat text", sizes...)
	if p.cfg.Hoist == "report" {
		return answer
	}
	out, err := sjson.SetBytes(answer, "result.instructions", notes.Instructions(said))
	if err != nil {
		return answer
	}
	l.notes = notes
	return out
}

// Gauge shows the size of the list that a client has received last, and warns once if one is large.
type Gauge struct {
	Bytes  prometheus.Gauge
	warned atomic.Bool
}

// List is the list of tools that a session's client has received. The zero List is that of a new
// session.
type List struct {
	notes        footprint.Notes // the texts that moved to the instructions; set before the session is used
	instructions int             // in bytes; set before the session is used

	mu    sync.Mutex
	bytes int // the size of the pages so far
	whole bool
	tight bool // the list was too large: its tools are reduced from now on
}

// Introduce notes the size of the instructions in a response to initialize, before the session is used.
func (l *List) Introduce(answer []byte) {
	l.instructions = len(gjson.GetBytes(answer, "result.instructions").Str)
}

// Slim returns a response to tools/list, in the client's revision, with its tools reduced as the
// policy says. It returns page itself if nothing changes. It also measures the list. log gets the
// warning of g. client is the client's revision, by which it finds out whether the page is the last one.
func (l *List) Slim(page []byte, client *translate.Revision, p *Policy, g *Gauge, log func() *zap.Logger) []byte {
	page = shrunk(page, l.notes, p.shrink)
	if l.isTight(page, p) {
		page = shrunk(page, nil, footprint.Shrinker{Titles: true, Echoes: true, SchemaNames: true})
	}
	l.weigh(page, client, p, g, log)
	return page
}

func shrunk(page []byte, notes footprint.Notes, shrink footprint.Shrinker) []byte {
	if shrink == (footprint.Shrinker{}) && len(notes) == 0 {
		return page
	}
	return toolindex.Edit(page, func(tool []byte) []byte {
		out, err := notes.Apply(nil, tool)
		if err != nil {
			return tool
		}
		if out, err = shrink.Apply(nil, out); err != nil {
			return tool
		}
		return out
	})
}

// isTight reports whether the list is too large with this page and footprint.enforce is set.
func (l *List) isTight(page []byte, p *Policy) bool {
	if !p.enforced() {
		return false
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	n := l.instructions + compactLen(gjson.Get(wire.View(page), "result.tools").Raw)
	if !l.whole {
		n += l.bytes
	}
	l.tight = l.tight || n > int(p.cfg.MaxBytes)
	return l.tight
}

// weigh measures the tool list that the client reads first.
func (l *List) weigh(page []byte, client *translate.Revision, p *Policy, g *Gauge, log func() *zap.Logger) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.whole {
		return
	}
	result := gjson.Get(wire.View(page), "result")
	l.bytes += compactLen(result.Get("tools").Raw)
	if client.HasCursor(result.Get("nextCursor").Raw) {
		l.bytes-- // `][` between two pages becomes a comma
		return
	}
	l.whole = true
	g.Bytes.Set(float64(l.bytes))
	all := l.bytes + l.instructions
	if most := p.cfg.MaxBytes; most > 0 && all > int(most) && g.warned.CompareAndSwap(false, true) {
		log().Info("tool list and instructions are large, and every conversation includes them: run dragoman footprint to see the largest",
			zap.Int("bytes", all), zap.Int("instructions", l.instructions), zap.Int("max_bytes", int(most)))
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
