// Package linear makes summaries of Linear's issues. A summary has the few
// members of an issue that a model works with, instead of the graph around it.
//
//	https://linear.app/developers/graphql
//
// Input and output are bytes. The package finds issues in answers of the API
// (find.go says in which wrappers) and in the flatter forms that MCP servers
// make of them. It leaves alone values without issues, such as a project, a
// user or an error.
package linear

import (
	"github.com/dragoman-proxy/dragoman/transform/tree"
	"github.com/dragoman-proxy/dragoman/translate/wire"
)

// Convert appends to dst the summary of the issues in value, which is one JSON
// value. The summary of an issue is an object, that of an array is an array,
// and that of any other list is an object with its issues and the members
// around them. If there are no issues, more than one list of them, or other
// objects beside them, ok is false and dst is returned as it was. The error is
// one of package tree's.
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
	case v.Is(wire.Array):
		s.list(f.list)
	default:
		s.out = append(s.out, `{"issues":`...)
		s.list(f.list)
		s.beside(f.kept, ',')
		s.out = append(s.out, '}')
	}
	return s.out, true, nil
}

// Recognize reports whether v is certainly an issue or a list of issues: the
// first issue has a title and an identifier such as LIN-123.
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
	return first.Get("title").Is(wire.String) && identified(first)
}
