package translate

import (
	"reflect"
	"runtime"
	"strings"
)

// Steps and Always export all rules to the test of the page that lists them.
var (
	Steps  = steps
	Always = always
)

// Action returns the name of the rule's function Do.
func (r Rule) Action() string {
	name := runtime.FuncForPC(reflect.ValueOf(r.Do).Pointer()).Name()
	return name[strings.LastIndexByte(name, '.')+1:]
}
