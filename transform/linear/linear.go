// Package linear makes summaries of Linear's issues: of each the few members
// that a model works with, instead of the graph around it.
//
//	https://linear.app/developers/graphql
//
// Bytes in, bytes out. Issues are found in what the API answers (issue.go says
// in which wrappers) and in the flatter forms that MCP servers make of it. What
// holds none, a project, a user, an error, is left alone.
package linear

import (
	"fmt"
	"regexp"

	"github.com/dragoman-proxy/dragoman/transform/tree"
)

// Options say what a summary holds.
type Options struct {
	// Detail is "minimal" for id, title, status, assignee and priority, or
	// "standard" for labels, project, dates and the like beside them.
	Detail   string
	Comments bool // and the comments, oldest first
}

// Defaults are the options of a configuration that says nothing.
func Defaults() Options { return Options{Detail: "minimal"} }

// Validate says which option is out of its range.
func (o Options) Validate() error {
	if o.Detail != "minimal" && o.Detail != "standard" {
		return fmt.Errorf("detail: %q is neither minimal nor standard", o.Detail)
	}
	return nil
}

// Convert appends to dst the summary of the issues in value, one JSON value: an
// object of an issue, an array of an array, and for every other list an object
// of its issues and what stood around them. ok is false, and dst as it was, when
// there are no issues, more than one list of them, or other things beside. The error is one of
// package tree's.
func Convert(dst, value []byte, o Options) (out []byte, ok bool, err error) {
	v, err := tree.Parse(value)
	if err != nil {
		return dst, false, err
	}
	f := &finder{}
	if !f.one(v) {
		return dst, false, nil
	}
	s := &summarizer{Options: o, out: dst}
	switch {
	case f.issue.Present():
		s.issue(f.issue, f.kept)
	case v.Is(tree.Array):
		s.list(f.list)
	default:
		s.out = append(s.out, `{"issues":`...)
		s.list(f.list)
		s.beside(f.kept, ',')
		s.out = append(s.out, '}')
	}
	return s.out, true, nil
}

// identifier of an issue, as in LIN-123.
var identifier = regexp.MustCompile(`^[A-Z][A-Z0-9]*-\d+$`)

// Recognize reports whether a value is an issue or a list of them beyond doubt:
// the first one has a title and an identifier.
func Recognize(v tree.Value) bool {
	f := &finder{}
	if !f.one(v) {
		return false
	}
	first := f.issue
	for e := range f.list.Elements() {
		first = node(e)
		break
	}
	return first.Get("title").Is(tree.String) && identified(first)
}

func identified(v tree.Value) bool {
	return identifier.MatchString(v.Get("identifier").Text()) || identifier.MatchString(v.Get("id").Text())
}
