package adapterrt

import (
	"crypto/sha256"
	"net/url"
	"regexp"
	"time"
)

// Category is the CRUDE category of an operation. [AnyCategory] stands for an
// endpoint that takes all of them.
type Category uint8

// The categories, in the order in which files and tools name them.
const (
	AnyCategory Category = iota
	Create
	Read
	Update
	Delete
	Execute
)

var categoryNames = [...]string{"", "create", "read", "update", "delete", "execute"}
var categoryUpper = [...]string{"", "CREATE", "READ", "UPDATE", "DELETE", "EXECUTE"}

// String is the category's word in lower case, "" for AnyCategory.
func (c Category) String() string { return categoryNames[c] }

// CategoryOf is the category with that word in lower case.
func CategoryOf(word string) (Category, bool) {
	for c := Create; c <= Execute; c++ {
		if categoryNames[c] == word {
			return c, true
		}
	}
	return AnyCategory, false
}

// Adapter is one adapter file, checked and compiled. What it says does not change
// any more; what a running one counts and keeps is behind locks.
type Adapter struct {
	Name, Version, Description, Author string
	Tags, Triggers                     []string
	Created, Modified                  string // ISO 8601
	Documentation                      string // the Markdown behind the front matter
	File                               string

	digest    [sha256.Size]byte
	target    target
	auth      auth
	trust     trust
	limits    *limitRules
	limiter   *limiter     // set when the adapter goes live
	ops       []*operation // in the order of the file
	index     map[string]*operation
	presets   map[string][]string
	declared  []generatedType // the file's own types
	transform []byte          // JSON, for operations that have none of their own
	generated []generatedType
	client    *client // set when the adapter goes live; its next version goes on with it
}

// target is where an adapter's API lives.
type target struct {
	base    *url.URL
	baseURL string
	origin  string // scheme://host:port, the port always there
	path    string // the base path, escaped, without a slash behind it
	prefix  string // what every URL begins with, up to the slash of the operation's path
	graphql bool
	form    bool
	headers []header
	timeout time.Duration
	retries int
	delay   time.Duration
}

type header struct{ name, value string }

// operation is one entry of an adapter, compiled for the call path.
type operation struct {
	adapter     *Adapter
	name        string
	category    Category
	description string
	mapping     *mapping
	params      []*param
	byName      map[string]int // of params, where these are many
	required    []int          // indexes of params
	placed      [places][]int  // indexes of params by place, in declaration order; the path has its own
	builtin     bool           // introspect
	timeout     time.Duration
	repeatable  bool // safe to send twice
	returns     *returns
	deprecated  *deprecation
	lifecycle   []byte // JSON
	paging      *paging
	fields      *fieldRules
	cache       *cacheRule
	gates       []*gate
	graphql     *graphqlRule
	danger      danger
	limits      *limitRules
	limiter     *limiter
	transform   []byte // JSON, for the pipeline that shortens results

	detail detail
}

// From so many parameters on they are looked up by a map: it is the larger, and for
// a few of them the slower way.
const manyParams = 12

func (op *operation) indexParams() {
	if len(op.params) < manyParams {
		return
	}
	op.byName = make(map[string]int, len(op.params))
	for i, p := range op.params {
		if !p.hidden {
			op.byName[p.name] = i
		}
	}
}

// param is the index of the parameter of that name, if requests may give one.
func (op *operation) param(name []byte) (int, bool) {
	if op.byName != nil {
		i, ok := op.byName[string(name)]
		return i, ok
	}
	for i, p := range op.params {
		if p.name == string(name) && !p.hidden {
			return i, true
		}
	}
	return 0, false
}

type place uint8

const (
	inBody place = iota
	inQuery
	inPath
	inHeader
	inVariables // GraphQL
	inRuntime   // ours: first, after, fields
	places
)

type style uint8

const (
	styleDefault style = iota
	styleCSV
	styleRepeat
	styleDeep
	styleJSON
)

// param is a declared parameter.
type param struct {
	definition
	name      string
	wire      string
	queryKey  string // wire, encoded
	bodyKey   string // "wire":
	required  bool
	hidden    bool   // only the runtime itself sets it
	fallback  []byte // the default as JSON, nil for none
	place     place
	style     style
	alwaysEnc bool
}

// definition is what a value has to be.
type definition struct {
	typ         paramType
	description string
	enum        []enumValue
	enumText    string // "open, closed, all"
	minimum     *bound
	maximum     *bound
	minLength   int // runes, -1 for none
	maxLength   int
	pattern     *regexp.Regexp
	format      string
	items       *definition
	sensitive   bool
	orString    bool // an array, or a string in its place
	constrained bool // there is more to check than the type
}

type enumValue struct {
	raw  []byte // JSON
	text string
}

// bound is an inclusive limit of a number.
type bound struct{ raw []byte }

type paramType uint8

const (
	typeString paramType = iota
	typeInteger
	typeNumber
	typeBoolean
	typeArray
	typeObject
)

var typeNames = [...]string{"string", "integer", "number", "boolean", "array", "object"}

func (t paramType) String() string { return typeNames[t] }

// returns is the type of an operation's answer.
type returns struct {
	name, kind, description string
	fields                  []byte // JSON, as the file has them
}

type deprecation struct{ since, replacement, removal string }
