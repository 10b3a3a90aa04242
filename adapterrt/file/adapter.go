package file

import (
	"crypto/sha256"
	"path"
	"strings"
	"time"

	"github.com/dragoman-proxy/dragoman/adapterrt/gate"
	"github.com/dragoman-proxy/dragoman/translate/wire"
)

// Adapter is one adapter file, checked and compiled. It does not change after that.
type Adapter struct {
	Name, Version, Description, Author string
	Tags, Triggers                     []string
	Created, Modified                  string // ISO 8601
	Documentation                      string // the Markdown after the front matter
	File                               string

	Digest         [sha256.Size]byte
	Target         Target
	Auth           Auth
	DeclaresDanger bool // the file declares, for one operation at least, danger or a confirmation
	Trust          Trust
	Limits         *Limits
	Breaker        *Breaker              // nil for none
	Operations     []*Operation          // in the order of the file
	Index          map[string]*Operation // by name, and by the name of the tool
	Presets        map[string][]string
	Declared       []DeclaredType // the types that the file declares
	transform      []byte         // JSON, for operations without a transform block of their own
	errors         []ErrorRule    // for all operations
}

// Operation is one entry of an adapter, compiled for the call path.
type Operation struct {
	Adapter     *Adapter
	Index       int // in the adapter's operations
	Name        string
	ToolName    string // of the tool for this one operation; "" for one that is made of its name
	Category    Category
	Description string
	Mapping     *Mapping
	Target      *Target  // that of the adapter, or one with a base URL of the operation's own
	Anonymous   bool     // it is sent without credentials
	Scopes      []string // of OAuth, that it needs; nil if they are not known
	Request     *Request // nil for a JSON object of the body's parameters
	Params      []*Param
	byName      map[string]int // indexes of params by name; nil if there are few
	renamed     bool           // a parameter, or a member of one, has another name in schemas
	Required    []int          // indexes of params
	Placed      [places][]int  // indexes of params by place, in declaration order; those of the path are in Mapping
	Builtin     bool           // introspect
	Timeout     time.Duration
	Repeatable  bool // safe to send twice
	Returns     *Returns
	Schema      *Definition // of the data of an answer; nil if the file does not describe it
	Aliases     []string    // further words by which a search finds the operation
	Tags        []string    // its own, and those of the file that no operation has as its own
	Answer      *Answer     // nil for JSON
	Deprecated  *Deprecation
	Lifecycle   []byte // JSON
	Paging      *Paging
	Fields      *FieldRules
	Cache       *CacheRule
	Gates       []*Gate
	GraphQL     *GraphQL
	Danger      Danger
	Limits      *Limits
	Errors      []ErrorRule // the first that matches counts; the operation's own rules come before the file's
	Transform   []byte      // JSON, for the pipeline that shortens results
}

// manyParams is the number of parameters from which on they are looked up in a map. For fewer, a
// map is larger and slower than a search.
const manyParams = 12

func (op *Operation) indexParams() {
	if len(op.Params) < manyParams {
		return
	}
	op.byName = make(map[string]int, len(op.Params))
	for i, p := range op.Params {
		if !p.Hidden {
			op.byName[p.Name] = i
		}
	}
}

// Names returns the names of the parameters that requests may set.
func (op *Operation) Names() []string {
	names := make([]string, 0, len(op.Params))
	for _, p := range op.Params {
		if !p.Hidden {
			names = append(names, p.Name)
		}
	}
	return names
}

// Param returns the index of the parameter called name, and whether requests may set it.
func (op *Operation) Param(name []byte) (int, bool) {
	if op.byName != nil {
		i, ok := op.byName[string(name)]
		return i, ok
	}
	for i, p := range op.Params {
		if p.Name == string(name) && !p.Hidden {
			return i, true
		}
	}
	return 0, false
}

// Returns is the type of an operation's answer.
type Returns struct {
	Name, Kind, Description string
	Fields                  []byte // JSON, as the file has them
}

// Deprecation is the deprecated block of an operation.
type Deprecation struct{ Since, Replacement, Removal string }

// Append adds what the block says to o.
func (d *Deprecation) Append(o wire.Members) wire.Members {
	for _, f := range [...]struct{ key, val string }{{"since", d.Since}, {"replacement", d.Replacement}, {"removal_date", d.Removal}} {
		if f.val != "" {
			o = o.Str(f.key, f.val)
		}
	}
	return o
}

// Gate permits parameters only if the API says that it supports them. Without a TTL, it asks
// the API for each call, so that a change of the API takes effect at once.
type Gate struct {
	Params     []int
	sourceName string
	Source     *Operation
	at         string // the path in the file, for problems
	sourceLine int
	Arguments  []GateValue
	gate.Rule
	Wanted         []GateValue // the value of each condition of Match
	CapabilityText string
	Subject        int
	Kind           string // invalid_expand
	Deny           bool   // refuse the call if the source gives no usable answer
	TTL            time.Duration
	Timeout        time.Duration
}

// GateValue is a literal or the value of a parameter.
type GateValue struct {
	Names []string
	Raw   []byte
	Param int // -1 for the literal
}

// GraphQL is an operation of an API that speaks GraphQL:
// https://graphql.github.io/graphql-over-http/draft/
type GraphQL struct {
	Head   []byte // {"query":"…","variables":{
	Result []string
}

// Paging is a compiled pagination block.
type Paging struct {
	Style              string // cursor, offset, page, link_header
	Limit, Max         int
	Start              int // number of the first page
	Pages              int // pages of the API that one request may fetch
	Items, Next, Total []string
	Position, Size     int // indexes of the API's parameters, -1 for none
	First, After       int // indexes of the runtime's parameters
}

// FieldRules say which fields of an answer a request may select.
type FieldRules struct {
	Fields, Preset int        // indexes of these parameters
	Fallback       *Selection // for requests that select nothing; nil for the whole answer
	Declared       []string   // default_fields, for introspection
}

// CacheRule says how long an operation's answers are fresh.
type CacheRule struct {
	TTL      time.Duration // 0 if the answer's headers decide
	Coalesce bool          // identical calls at one time share one request
}

const defaultWait = 2 * time.Second

// MaxWait returns how long a call of the operation may wait in all: for its turn, if a limit is
// reached, and for an API that asks it to come again.
func (op *Operation) MaxWait() time.Duration {
	for _, l := range [...]*Limits{op.Limits, op.Adapter.Limits} {
		if l != nil && l.wait >= 0 {
			return l.wait
		}
	}
	return defaultWait
}

// Covers reports whether calls of op count for the limit.
func (r *Limit) Covers(op *Operation) bool {
	if r.category != AnyCategory && r.category != op.Category {
		return false
	}
	if r.endpoint == "" {
		return true
	}
	template, _, _ := strings.Cut(op.Mapping.Template, "?")
	ok, _ := path.Match(r.endpoint, op.Mapping.Method+" "+template)
	return ok
}
