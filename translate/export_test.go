package translate

import (
	"reflect"
	"runtime"
	"strings"
)

// Steps and Always are all rules, for the page that lists them.
var (
	Steps  = steps
	Always = always
)

// Action is the name of the function that carries the rule out.
func (r Rule) Action() string {
	name := runtime.FuncForPC(reflect.ValueOf(r.Do).Pointer()).Name()
	return name[strings.LastIndexByte(name, '.')+1:]
}
