package openapi

import (
	"slices"
	"strconv"
	"strings"

	"github.com/dragoman-proxy/dragoman/adapterrt/file"
)

// snake writes a name in snake_case. Characters other than ASCII letters and digits separate
// words.
func snake(s string) string {
	var b strings.Builder
	kind := func(i int) byte {
		if i < 0 || i >= len(s) {
			return 0
		}
		switch c := s[i]; {
		case c >= 'a' && c <= 'z':
			return 'a'
		case c >= 'A' && c <= 'Z':
			return 'A'
		case c >= '0' && c <= '9':
			return '0'
		}
		return '_'
	}
	for i := range len(s) {
		k := kind(i)
		switch {
		case k == '_':
			b.WriteByte('_')
			continue
		case k == 'A' && (kind(i-1) == 'a' || kind(i-1) == '0' && kind(i+1) == 'a'):
			b.WriteByte('_')
		case k == 'A' && kind(i-1) == 'A' && kind(i+1) == 'a' && !(kind(i+2) != 'a' && s[i+1] == 's'): // HTTPServer, but not IDs
			b.WriteByte('_')
		}
		c := s[i]
		if k == 'A' {
			c |= 0x20
		}
		b.WriteByte(c)
	}
	words := strings.FieldsFunc(b.String(), func(r rune) bool { return r == '_' })
	return strings.Join(words, "_")
}

// slug returns a name for an adapter or part of it: a-z, 0-9 and hyphens.
func slug(s string) string {
	return strings.ReplaceAll(snake(strings.ToLower(strings.NewReplacer("'", "", "’", "").Replace(s))), "_", "-")
}

// AdapterName returns the name of an adapter for an API with that title.
func AdapterName(title string) string {
	s := slug(title)
	for _, word := range [...]string{"-v1", "-v2", "-v3", "-open-api", "-openapi", "-swagger", "-specification", "-spec", "-documentation", "-rest-api", "-api"} {
		s = strings.TrimSuffix(s, word)
	}
	s = strings.TrimLeft(s, "0123456789-")
	if len(s) > 40 {
		s = s[:40]
		if i := strings.LastIndexByte(s, '-'); i > 10 {
			s = s[:i]
		}
	}
	if s = strings.Trim(s, "-"); len(s) < 2 {
		return "api"
	}
	return s
}

const maxOperationName = 64

// operationName returns the advice's name for an operation as adapters write it, or "".
func (a *advice) operationName() string {
	if file.IsSnake(a.name) {
		return a.name
	}
	name := snake(a.name)
	if !file.IsSnake(name) {
		return ""
	}
	return name
}

// named returns the name that the document gives to the operation's tool, or else nameOf.
func (op *rawOperation) named() string {
	if name := op.advice.operationName(); name != "" {
		return name
	}
	return op.nameOf()
}

// nameOf returns the name of an operation before it is shortened and clashes are resolved. It drops the parts of
// an operationId that generators add.
func (op *rawOperation) nameOf() string {
	name := snake(op.id)
	if name != "" {
		ending := "_" + snake(op.path) + "_" + strings.ToLower(op.method) // FastAPI
		if cut := strings.TrimSuffix(name, ending); cut != name && cut != "" {
			name = cut
		}
		if i := strings.Index(name, "_controller_"); i > 0 { // NestJS: PetController_findAll
			name = name[i+len("_controller_"):] + "_" + name[:i]
		}
	} else {
		name = op.pathName()
	}
	if name == "" || name[0] < 'a' || name[0] > 'z' {
		name = strings.TrimSuffix(strings.ToLower(op.method)+"_"+name, "_")
	}
	return name
}

// pathName makes a name of method and path.
func (op *rawOperation) pathName() string {
	words := []string{strings.ToLower(op.method)}
	by := ""
	for _, s := range strings.Split(op.path, "/") {
		by = ""
		switch {
		case s == "" || isVersion(s):
		case strings.HasPrefix(s, "{") && strings.HasSuffix(s, "}"):
			by = snake(s)
		default:
			words = append(words, snake(s))
		}
	}
	if by != "" {
		words = append(words, "by", by)
	}
	return strings.Trim(strings.Join(slices.DeleteFunc(words, func(w string) bool { return w == "" }), "_"), "_")
}

// reservedOperations are the names of operations that the format keeps for itself.
var reservedOperations = []string{"introspect", "execute_agent", "record_execution_step", "complete_execution", "abort_execution", "confirm_operation", "verify_challenge"}

// operationName returns a name for an operation that no other one of its file has.
func operationName(taken map[string]bool, name string) string {
	if slices.Contains(reservedOperations, name) {
		name += "_operation"
	}
	return unique(taken, name, "_")
}

// unique returns the name, or if it is taken the name with the first number that is free, behind
// sep. That is no longer than names of adapters and operations may be.
func unique(taken map[string]bool, name, sep string) string {
	out := name
	for i := 2; taken[out]; i++ {
		suffix := sep + strconv.Itoa(i)
		out = strings.TrimRight(name[:min(len(name), maxOperationName-len(suffix))], sep) + suffix
	}
	taken[out] = true
	return out
}

// reservedParams are parameters that a request may have beside those of its operation.
var reservedParams = []string{"operation", "params", "adapter", "operations", "fields", "preset"}

// paramName returns a name for a parameter of the API, as adapters write it.
func paramName(wire string) string {
	name := snake(wire)
	switch {
	case name == "":
		return "param"
	case name[0] >= '0' && name[0] <= '9':
		name = "p_" + name
	case slices.Contains(reservedParams, name):
		name = "api_" + name
	}
	return strings.TrimRight(name[:min(len(name), 100)], "_")
}

// isPlain reports whether YAML may write a text without quotes.
func isPlain(s string) bool {
	for i := range len(s) {
		c := s[i]
		if letter := c|0x20 >= 'a' && c|0x20 <= 'z'; !letter && (i == 0 || c != '_' && c != '-' && c != '.' && c != '/' && (c < '0' || c > '9')) {
			return false
		}
	}
	switch strings.ToLower(s) {
	case "", "true", "false", "null", "yes", "no", "on", "off", "y", "n":
		return false
	}
	return len(s) <= 80
}
