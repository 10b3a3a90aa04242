package toolindex

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/dragoman-proxy/dragoman/proxy/protocol/mcp"
	"github.com/tidwall/gjson"
)

// mark is the annotation of an argument that is also sent in a header. See
// https://modelcontextprotocol.io/specification/2026-07-28/basic/transports#custom-headers-from-tool-parameters.
const mark = "x-mcp-header"

// maxDepth is the depth to which schemas are searched for annotations.
const maxDepth = 64

// MaxSafe is the greatest integer that every reader of a header parses to the same value.
const MaxSafe = 1<<53 - 1

// ErrTooLarge is the error for an integer beyond [MaxSafe].
var ErrTooLarge = errors.New("too large for a header")

// Argument is a tool's argument that is also sent in a header.
type Argument struct {
	Path   []string // path within the arguments of a call
	Header string   // name of the header, without its prefix
	Kind   string   // string, integer or boolean
}

// Arguments returns the annotated arguments of a tool's inputSchema. The error says what is wrong with an annotation.
func Arguments(schema gjson.Result) ([]Argument, error) {
	if !strings.Contains(schema.Raw, mark) {
		return nil, nil
	}
	list, err := appendAnnotated(nil, schema, nil)
	if err != nil {
		return nil, err
	}
	for i, a := range list {
		if slices.ContainsFunc(list[:i], func(b Argument) bool { return strings.EqualFold(a.Header, b.Header) }) {
			return nil, fmt.Errorf("%s %q occurs twice", mark, a.Header)
		}
	}
	return list, nil
}

func appendAnnotated(list []Argument, schema gjson.Result, path []string) (_ []Argument, err error) {
	if len(path) > maxDepth {
		return nil, fmt.Errorf("the schema is nested deeper than %d levels", maxDepth)
	}
	kind := schema.Get("type").String()
	mcp.Members(schema.Raw, func(name string, v gjson.Result) {
		switch {
		case err != nil:
		case name == mark:
			a := Argument{Path: slices.Clone(path), Header: strings.Clone(v.String()), Kind: strings.Clone(kind)}
			err = a.check(v)
			list = append(list, a)
		case name == "properties":
			mcp.Members(v.Raw, func(name string, v gjson.Result) {
				if err == nil {
					list, err = appendAnnotated(list, v, append(path, strings.Clone(name)))
				}
			})
		case holdsData(name):
		case annotated(v, 0):
			err = fmt.Errorf("%s inside %.64q, which cannot be a header", mark, name)
		}
	})
	return list, err
}

// check returns an error if said is not a valid annotation of a.
func (a Argument) check(said gjson.Result) error {
	token := a.Header != ""
	for i := range len(a.Header) {
		ch := a.Header[i]
		token = token && (ch >= '0' && ch <= '9' || ch|0x20 >= 'a' && ch|0x20 <= 'z' || strings.IndexByte("!#$%&'*+-.^_`|~", ch) >= 0)
	}
	switch {
	case said.Type != gjson.String || !token:
		return fmt.Errorf("%s %.64s is not a header name", mark, said.Raw)
	case len(a.Path) == 0:
		return fmt.Errorf("%s on the whole schema; it must be on a property", mark)
	case a.Kind != "string" && a.Kind != "integer" && a.Kind != "boolean":
		return fmt.Errorf("%s %q on a value of type %.64q; it must be string, integer or boolean", mark, a.Header, a.Kind)
	}
	return nil
}

// holdsData reports whether the value of a schema's member is data and not a schema.
func holdsData(name string) bool {
	switch name {
	case "default", "enum", "const", "examples", "title", "description":
		return true
	}
	return false
}

// annotated reports whether v contains an annotation at any depth.
func annotated(v gjson.Result, depth int) (found bool) {
	if !strings.Contains(v.Raw, mark) || v.Type != gjson.JSON {
		return false
	}
	if depth > maxDepth {
		return true
	}
	v.ForEach(func(key, v gjson.Result) bool {
		found = key.String() == mark || !holdsData(key.String()) && annotated(v, depth+1)
		return !found
	})
	return found
}

// Text returns the value of the header in a call with these arguments. It returns false if the argument is absent or
// is not of its kind. The error is [ErrTooLarge].
func (a Argument) Text(arguments []byte) (text string, ok bool, err error) {
	at := a.In(arguments)
	switch {
	case a.Kind == "string" && at.Type == gjson.String:
		return at.String(), true, nil
	case a.Kind == "boolean" && at.IsBool():
		return at.Raw, true, nil
	case a.Kind == "integer" && at.Type == gjson.Number && at.Num == math.Trunc(at.Num):
		if math.Abs(at.Num) > MaxSafe {
			return "", false, ErrTooLarge
		}
		return strconv.FormatInt(int64(at.Num), 10), true, nil
	}
	return "", false, nil
}

// Twice reports whether the argument, or an object around it, occurs twice in a call: readers differ in which one they take.
func (a Argument) Twice(arguments []byte) bool {
	at := gjson.ParseBytes(arguments)
	for _, name := range a.Path {
		next, found := gjson.Result{}, 0
		mcp.Members(at.Raw, func(n string, v gjson.Result) {
			if n == name {
				next = v
				found++
			}
		})
		if found > 1 {
			return true
		}
		at = next
	}
	return false
}

// In returns the value of the argument in a call, or a Result that does not exist if the call lacks it.
func (a Argument) In(arguments []byte) gjson.Result {
	at := gjson.ParseBytes(arguments)
	for _, name := range a.Path {
		next := gjson.Result{}
		mcp.Members(at.Raw, func(n string, v gjson.Result) {
			if n == name {
				next = v
			}
		})
		at = next
	}
	return at
}
