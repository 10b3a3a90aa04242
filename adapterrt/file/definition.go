package file

import (
	"cmp"
	"fmt"
	"math/big"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/dragoman-proxy/dragoman/adapterrt/clean"
	"github.com/dragoman-proxy/dragoman/translate/wire"
)

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
	Extent
	Items       *Definition
	Properties  *[]Property // of an object, nil for any
	Forms       []Form      // of an object; for the model, and not checked
	Values      *Definition // of an object's members that Properties does not describe, nil for any
	Type        ParamType
	Also        TypeSet // other valid types
	Sensitive   bool
	orString    bool // for an array parameter of the runtime: a string is valid, too
	Constrained bool // there is more to check than the type
	renamed     bool // a member, at whatever depth, has another name in schemas
}

// Property is a member that an object may have.
type Property struct {
	Definition
	Name     string
	key      string // its name in schemas, if Name is none that providers of models accept
	Required bool
}

// Form is one of several forms that an object may have: the members that not all of them have, or have with other values.
type Form []FormMember

// FormMember is a member of objects of a [Form].
type FormMember struct {
	Name     string
	Value    []byte // JSON: its only value in that form; nil for any
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

// Bound is a limit of a number, which is open if the number itself is beyond it.
type Bound struct {
	Raw  []byte
	Open bool
}

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

// Allowed returns the values of the enum as a JSON array.
func (d *Definition) Allowed() []byte {
	list := []byte{'['}
	for _, e := range d.Enum {
		list = wire.Comma(list)
		list = append(list, e.Raw...)
	}
	return append(list, ']')
}

// IntegerItems reports whether the value, or each element of it, is an integer.
func (d *Definition) IntegerItems() bool {
	return d.Type == TypeInteger || d.Items != nil && d.Items.Type == TypeInteger
}

// newDefinition returns a definition that accepts every value of a type.
func newDefinition(t ParamType) *Definition {
	return &Definition{Type: t, MinLength: -1, MaxLength: -1}
}

// member returns the definition of the member called name, which it adds if there is none.
func (d *Definition) member(name string, t ParamType) *Definition {
	if m := d.Property([]byte(name)); m != nil {
		return m
	}
	if d.Properties == nil {
		d.Properties, d.Constrained = &[]Property{}, true
	}
	*d.Properties = append(*d.Properties, Property{Name: name, Definition: *newDefinition(t)})
	return &(*d.Properties)[len(*d.Properties)-1].Definition
}

// Extent says how many elements an array has, and of which step a number is a multiple.
type Extent struct {
	MinItems int // 0 for none
	MaxItems int // 0 for none
	Unique   bool
	Step     []byte // a number above 0; nil for none
}

// Mismatch says why a value is not valid.
type Mismatch struct {
	WrongType bool   // the type is wrong; otherwise a constraint is not met
	Where     string // "", "[2]", "[2][0]"
	Expected  string // a type
	Actual    string
	Text      string // "must be >= 1"
	Key       string // allowed, or the key of the adapter format
	Limit     []byte // JSON
}

// Misfit says where and how the JSON value raw does not fit d, or returns "" if it fits.
func (d *Definition) Misfit(raw []byte) string {
	m := d.mismatch(raw)
	switch {
	case m == nil:
		return ""
	case m.WrongType:
		return "data" + m.Where + " is of type " + m.Actual + ", not " + m.Expected
	}
	return "data" + m.Where + " " + m.Text
}

// mismatch checks the JSON value raw and returns nil if it fits. raw must be valid JSON.
func (d *Definition) mismatch(raw []byte) *Mismatch {
	switch {
	case !d.TypeFits(raw):
		return d.WrongType(raw)
	case wire.KindOf(raw) == wire.Null:
		return nil
	}
	return d.Constraint(raw)
}

// Accepts reports whether raw, a valid JSON value, has a type that d allows and meets the
// constraints of d.
func (d *Definition) Accepts(raw []byte) bool { return d.mismatch(raw) == nil }

// WrongType returns the mismatch of raw, a value whose type d does not allow.
func (d *Definition) WrongType(raw []byte) *Mismatch {
	e, a := d.Expects(), TypeOf(raw)
	return &Mismatch{WrongType: true, Expected: e, Actual: a, Text: "expected '" + e + "', got '" + a + "'"}
}

// Expects returns the names of the types that a value may have, joined by " or ".
func (d *Definition) Expects() string {
	if d.Also == 0 {
		return d.Type.String()
	}
	return strings.Join(append([]string{d.Type.String()}, d.Also.Names()...), " or ")
}

// TypeFits reports whether a value has one of the types that the definition allows.
func (d *Definition) TypeFits(raw []byte) bool {
	if d.Also == 0 {
		return d.Type.fits(raw) || d.orString && wire.KindOf(raw) == wire.String
	}
	for t := range typeNames {
		if d.may(ParamType(t)) && ParamType(t).fits(raw) {
			return true
		}
	}
	return d.Also&AlsoNull != 0 && wire.KindOf(raw) == wire.Null
}

func (t ParamType) fits(raw []byte) bool {
	switch k := wire.KindOf(raw); t {
	case TypeString:
		return k == wire.String
	case TypeInteger:
		if k != wire.Number {
			return false
		}
		var buf [64]byte
		_, ok := wire.AppendInteger(buf[:0], raw)
		return ok
	case TypeNumber:
		return k == wire.Number
	case TypeBoolean:
		return k == wire.Boolean
	case TypeArray:
		return k == wire.Array
	default:
		return k == wire.Object
	}
}

// TypeOf returns the JSON type of a value, with the names of parameter types.
func TypeOf(raw []byte) string {
	switch k := wire.KindOf(raw); k {
	case wire.Number:
		if _, ok := wire.AppendInteger(nil, raw); ok {
			return "integer"
		}
		return "number"
	default:
		return k.String()
	}
}

// Constraint checks raw, a value of the right type, against the other constraints of d. It
// returns nil if raw meets them, otherwise the first that it does not meet.
func (d *Definition) Constraint(raw []byte) *Mismatch {
	if len(d.Enum) > 0 && !slices.ContainsFunc(d.Enum, func(e EnumValue) bool { return e.equal(raw) }) {
		return &Mismatch{Text: "must be one of: " + d.enumText, Key: "allowed", Limit: d.Allowed()}
	}
	kind := wire.KindOf(raw)
	if kind == wire.Number {
		return d.outside(raw)
	}
	if d.MinLength >= 0 || d.MaxLength >= 0 || d.Pattern != nil {
		if kind == wire.String {
			if m := d.wording(wire.Unquoted(raw)); m != nil {
				return m
			}
		}
	}
	switch {
	case kind == wire.Array:
		return d.elements(raw)
	case kind == wire.Object:
		return d.members(raw)
	}
	return nil
}

// outside says how the number raw is beyond the bounds of d, or returns nil.
func (d *Definition) outside(raw []byte) *Mismatch {
	if b := d.Minimum; b != nil {
		if n := CompareNumbers(raw, b.Raw); n < 0 || n == 0 && b.Open {
			return b.passed("must be >", "minimum", "exclusiveMinimum")
		}
	}
	if b := d.Maximum; b != nil {
		if n := CompareNumbers(raw, b.Raw); n > 0 || n == 0 && b.Open {
			return b.passed("must be <", "maximum", "exclusiveMaximum")
		}
	}
	if d.Step != nil && !multiple(raw, d.Step) {
		return &Mismatch{Text: "must be a multiple of " + string(d.Step), Key: "multipleOf", Limit: d.Step}
	}
	return nil
}

// passed is the mismatch of a number that is beyond b.
func (b *Bound) passed(text, key, exclusive string) *Mismatch {
	if b.Open {
		return &Mismatch{Text: text + " " + string(b.Raw), Key: exclusive, Limit: b.Raw}
	}
	return &Mismatch{Text: text + "= " + string(b.Raw), Key: key, Limit: b.Raw}
}

// multiple reports whether a number is a multiple of step. Unless both are integers of a usual size, it leaves that to the API.
func multiple(raw, step []byte) bool {
	var bufA, bufB [64]byte
	a, ok := wire.AppendInteger(bufA[:0], raw)
	b, okToo := wire.AppendInteger(bufB[:0], step)
	if !ok || !okToo || len(a) > 40 || len(b) > 40 {
		return true
	}
	x, fine := new(big.Int).SetString(string(a), 10)
	y, fineToo := new(big.Int).SetString(string(b), 10)
	return !fine || !fineToo || y.Sign() == 0 || x.Rem(x, y).Sign() == 0
}

// elements checks the number of elements of an array, and each of them.
func (d *Definition) elements(raw []byte) (bad *Mismatch) {
	var there map[string]bool
	if d.Unique {
		there = map[string]bool{}
	}
	i := 0
	wire.Each(raw, func(_, v []byte) bool {
		switch {
		case d.MaxItems > 0 && i == d.MaxItems:
			bad = &Mismatch{Text: "must have <= " + strconv.Itoa(d.MaxItems) + " elements", Key: "maxItems", Limit: strconv.AppendInt(nil, int64(d.MaxItems), 10)}
			return false
		case there != nil && wire.KindOf(v) < wire.Array:
			if there[string(v)] {
				bad = &Mismatch{Text: "is there twice", Where: index("", i), Key: "uniqueItems", Limit: []byte("true")}
				return false
			}
			there[string(v)] = true
		}
		if d.Items != nil {
			if bad = d.Items.mismatch(v); bad != nil {
				bad.Where = index("", i) + bad.Where
			}
		}
		i++
		return bad == nil
	})
	if bad == nil && i < d.MinItems {
		bad = &Mismatch{Text: "must have >= " + strconv.Itoa(d.MinItems) + " elements", Key: "minItems", Limit: strconv.AppendInt(nil, int64(d.MinItems), 10)}
	}
	return bad
}

// members checks the members of an object that have a definition. The API checks the others.
func (d *Definition) members(raw []byte) (bad *Mismatch) {
	var list []Property
	if d.Properties != nil {
		list = *d.Properties
	}
	var room [64]bool
	there := room[:]
	if len(list) > len(room) {
		there = make([]bool, len(list))
	}
	wire.Each(raw, func(name, v []byte) bool {
		i := slices.IndexFunc(list, func(p Property) bool { return p.Name == string(name) })
		if i < 0 {
			if d.Values != nil && (wire.KindOf(v) != wire.Null || d.Values.Also&AlsoNull != 0) {
				if bad = d.Values.mismatch(v); bad != nil {
					bad.Where = "." + clean.Text(string(name), 100) + bad.Where
				}
			}
			return bad == nil
		}
		p := &list[i]
		if wire.KindOf(v) == wire.Null && p.Also&AlsoNull == 0 {
			return true // null counts as missing if the member is required; otherwise the API decides
		}
		there[i] = true
		if bad = p.mismatch(v); bad != nil {
			bad.Where = "." + p.Name + bad.Where
		}
		return bad == nil
	})
	for i := range list {
		if p := &list[i]; bad == nil && p.Required && !there[i] {
			bad = &Mismatch{Where: "." + p.Name, Text: "is required. Expected: " + p.Expects() + ".", Key: "expected_type", Limit: wire.AppendQuoted(nil, p.Expects())}
		}
	}
	return bad
}

// wording checks the length and the pattern of a string.
func (d *Definition) wording(s []byte) *Mismatch {
	switch n := utf8.RuneCount(s); {
	case d.MinLength >= 0 && n < d.MinLength:
		return &Mismatch{Text: fmt.Sprintf("must have >= %d characters", d.MinLength), Key: "minLength", Limit: strconv.AppendInt(nil, int64(d.MinLength), 10)}
	case d.MaxLength >= 0 && n > d.MaxLength:
		return &Mismatch{Text: fmt.Sprintf("must have <= %d characters", d.MaxLength), Key: "maxLength", Limit: strconv.AppendInt(nil, int64(d.MaxLength), 10)}
	case d.Pattern != nil && !d.Pattern.Match(s):
		return &Mismatch{Text: "does not match its pattern", Key: "pattern", Limit: clean.EscapeHidden(wire.AppendQuoted(nil, d.Pattern.String()))}
	}
	return nil
}

// equal compares by value: strings without their escapes, and numbers by their value.
func (e *EnumValue) equal(raw []byte) bool {
	switch k := wire.KindOf(raw); {
	case k != wire.KindOf(e.Raw):
		return false
	case k == wire.String:
		return string(wire.Unquoted(raw)) == e.Text
	case k == wire.Number:
		return CompareNumbers(raw, e.Raw) == 0
	}
	return string(raw) == string(e.Raw)
}

// CompareNumbers compares two JSON numbers. It compares integers exactly.
func CompareNumbers(a, b []byte) int {
	x, _ := strconv.ParseFloat(string(a), 64) // out of range is infinite, which compares correctly
	y, _ := strconv.ParseFloat(string(b), 64)
	if c := cmp.Compare(x, y); c != 0 {
		return c
	}
	var bufA, bufB [64]byte
	p, ok1 := wire.AppendInteger(bufA[:0], a)
	q, ok2 := wire.AppendInteger(bufB[:0], b)
	if !ok1 || !ok2 {
		return 0
	}
	sign := 1
	if p[0] == '-' || q[0] == '-' {
		if p[0] != '-' || q[0] != '-' { // equal as floats, so both are near zero
			return 0
		}
		p, q, sign = p[1:], q[1:], -1
	}
	if len(p) != len(q) {
		return sign * (len(p) - len(q))
	}
	return sign * strings.Compare(string(p), string(q))
}
