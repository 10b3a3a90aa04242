// Package pattern has regular expressions that are compiled when they are first used: most processes use few of them, and
// compiling them all takes a tenth of a start.
package pattern

import (
	"regexp"
	"sync"
)

// Later returns a function that compiles a regular expression when it is first called. It panics then if text is none.
func Later(text string) func() *regexp.Regexp {
	return sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(text) })
}
