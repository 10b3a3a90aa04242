package main

import (
	"testing"

	"github.com/dragoman-proxy/dragoman/bench/simulate/script"
	"github.com/dragoman-proxy/dragoman/bench/simulate/trace"
)

// play plays s, in a bubble, and returns what happened.
var play = func(t *testing.T, s *script.Script, inside bool) []trace.Event {
	panic("no world yet")
}

// judged is what the judge says of it.
var judged = func(s *script.Script, all []trace.Event) result { return result{} }
