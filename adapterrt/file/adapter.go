package file

import (
	"crypto/sha256"
	"net/url"
	"regexp"
	"slices"
	"time"
)

// Category is the CRUDE category of an operation. [AnyCategory] stands for an
// endpoint that accepts all categories.
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
var CategoryUpper = [...]string{"", "CREATE", "READ", "UPDATE", "DELETE", "EXECUTE"}

// String returns the category's name in lower case, "" for AnyCategory.
func (c Category) String() string { return categoryNames[c] }

// CategoryOf returns the category that word names in lower case, and whether there is one.
func CategoryOf(word string) (Category, bool) {
	i := slices.Index(categoryNames[:], word)
	return Category(max(i, 0)), i > 0
}

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
	Breaker        *Breaker     // nil for none
	Operations     []*Operation // in the order of the file
	Index          map[string]*Operation
	Presets        map[string][]string
	Declared       []DeclaredType // the types that the file declares
	transform      []byte         // JSON, for operations without a transform block of their own
	errors         []ErrorRule    // for all operations
}

// Target is where an adapter's API lives.
type Target struct {
	Base    *url.URL
	BaseURL string
	Origin  string // scheme://host:port, always with a port
	Path    string // the base path, escaped, without a slash at its end
	Prefix  string // the beginning of every URL, up to the slash of the operation's path
	Outside bool   // the base URL comes from the environment or from another file
	graphql bool
	Form    bool
	Headers []Header
	Timeout time.Duration
	Retries int
	Delay   time.Duration

	Redirects Redirects
}

// Header is one header of a request or response.
type Header struct{ Name, Value string }

// Operation is one entry of an adapter, compiled for the call path.
type Operation struct {
	Adapter     *Adapter
	Index       int // in the adapter's operations
	Name        string
	Category    Category
	Description string
	Mapping     *Mapping
	Request     *Request // nil for a JSON object of the body's parameters
	Params      []*Param
	byName      map[string]int // indexes of params by name; nil if there are few
	Required    []int          // indexes of params
	Placed      [places][]int  // indexes of params by place, in declaration order; those of the path are in Mapping
	Builtin     bool           // introspect
	Timeout     time.Duration
	Repeatable  bool // safe to send twice
	Returns     *Returns
	Schema      *Definition // of the data of an answer; nil if the file does not describe it
	Aliases     []string    // further words by which a search finds the operation
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

// Place says in which part of the HTTP request a parameter is sent.
type Place uint8

const (
	InBody Place = iota
	InQuery
	InPath
	InHeader
	InVariables // GraphQL
	InRuntime   // not sent; read by the runtime: first, after, fields, preset
	InFileName  // in the name of a file in the body
	places
)

// Style is how an array or object is written into a query or form.
type Style uint8

const (
	styleDefault Style = iota
	styleCSV
	StyleRepeat
	StyleDeep
	StyleJSON
	StyleSpace
	StylePipe
	StyleBrackets
)

var styleNames = []string{"", "csv", "repeat", "deep_object", "json", "space", "pipe", "brackets"}

// Index says how the key of an array's element contains its index: a[0], or a[].
type Index uint8

// IndexNumbers is a[0], IndexNone is a[]. IndexMixed is a[] for scalars and a[0] for elements
// that have keys of their own.
const (
	IndexNumbers Index = iota
	IndexNone
	IndexMixed
)

// Encoding is how the value of a path parameter is escaped.
type Encoding uint8

// The encodings: EncodeAuto keeps what is escaped already, EncodeReserved keeps / and :.
const (
	EncodeAuto Encoding = iota
	EncodeAlways
	EncodeReserved
)

// Param is a declared parameter.
type Param struct {
	Definition
	Name     string
	Wire     string
	QueryKey string // Wire, encoded for a query
	BodyKey  string // "Wire": with quotes and colon, for parameters in a body
	Fallback []byte // the default as JSON, nil for none
	Body     *BodyRules
	Required bool
	Hidden   bool // only the runtime itself sets it
	Place    Place
	Style    Style
	Index    Index
	Encode   Encoding
}

// Definition says which values are valid for a parameter, element or property.
type Definition struct {
	Description string
	Enum        []EnumValue
	enumText    string // "open, closed, all"
	Minimum     *Bound
	Maximum     *Bound
	MinLength   int // runes, -1 for none
	MaxLength   int
	Pattern     *regexp.Regexp
	Format      string
	Items       *Definition
	Properties  *[]Property // of an object, nil for any
	Type        ParamType
	Also        TypeSet // other valid types
	Sensitive   bool
	orString    bool // for an array parameter of the runtime: a string is valid, too
	Constrained bool // there is more to check than the type
}

// Property is a member that an object may have.
type Property struct {
	Definition
	Name     string
	Required bool
}

// TypeSet is a set of types, which may include null.
type TypeSet uint8

// AlsoNull is the set that contains only null.
const AlsoNull TypeSet = 1 << 7

func setOf(t ParamType) TypeSet { return 1 << t }

// Names returns the names of the types in the set.
func (s TypeSet) Names() (names []string) {
	for t, name := range typeNames {
		if s&setOf(ParamType(t)) != 0 {
			names = append(names, name)
		}
	}
	if s&AlsoNull != 0 {
		names = append(names, "null")
	}
	return names
}

// EnumValue is one of the values that a parameter may have.
type EnumValue struct {
	Raw  []byte // JSON
	Text string
}

// Bound is an inclusive limit of a number.
type Bound struct{ Raw []byte }

// ParamType is the JSON type of a parameter.
type ParamType uint8

const (
	TypeString ParamType = iota
	TypeInteger
	TypeNumber
	TypeBoolean
	TypeArray
	TypeObject
)

var typeNames = [...]string{"string", "integer", "number", "boolean", "array", "object"}

func (t ParamType) String() string { return typeNames[t] }

// Returns is the type of an operation's answer.
type Returns struct {
	Name, Kind, Description string
	Fields                  []byte // JSON, as the file has them
}

// Deprecation is the deprecated block of an operation.
type Deprecation struct{ Since, Replacement, Removal string }

// may reports whether a value may be of type t.
func (d *Definition) may(t ParamType) bool { return d.Type == t || d.Also&setOf(t) != 0 }

// Property returns the definition of the member called name. It returns nil if any value is
// valid.
func (d *Definition) Property(name []byte) *Definition {
	if d == nil || d.Properties == nil {
		return nil
	}
	for i := range *d.Properties {
		if p := &(*d.Properties)[i]; p.Name == string(name) {
			return &p.Definition
		}
	}
	return nil
}

// Element returns the definition of an array's elements. It returns nil if any value is valid.
func (d *Definition) Element() *Definition {
	if d == nil {
		return nil
	}
	return d.Items
}

// IntegerItems reports whether the value, or each element of it, is an integer.
func (d *Definition) IntegerItems() bool {
	return d.Type == TypeInteger || d.Items != nil && d.Items.Type == TypeInteger
}
