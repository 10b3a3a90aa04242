//go:build race

package transform

import "flag"

const effort = 16

func init() {
	if err := flag.Set("rapid.checks", "20"); err != nil { // a value on the command line replaces this one
		panic(err)
	}
}
