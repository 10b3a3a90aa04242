package adapterrt

import (
	"github.com/dragoman-proxy/dragoman/adapterrt/file"
)

// Info describes a loaded adapter.
type Info struct {
	Name, Version, Description, File string

	BaseURL     string
	Auth        string   // the type of its auth block; "none" if it has no such block
	Credentials []string // the environment variables and files that hold its credentials
	Operations  int
}

// Adapters returns the loaded adapters, in the order of the files.
func (rt *Runtime) Adapters() []Info {
	var out []Info
	for _, a := range rt.live.Load().adapters {
		out = append(out, Info{
			Name: a.Name, Version: a.Version, Description: a.Description, File: a.File, Operations: len(a.Operations),
			BaseURL: a.Target.BaseURL, Auth: a.Auth.Kind.String(), Credentials: a.Auth.Credentials(),
		})
	}
	return out
}

// Operation describes one operation of an adapter.
type Operation struct {
	Name, Description string
	Category          file.Category
	MapsTo            string // METHOD /path
	Detail            []byte // the answer of introspection
	Tool              []byte // its entry in tools/list, if it is a tool of its own
}

// Operations returns the operations of an adapter in the order of its file. It returns
// nil if no adapter has that name.
func (rt *Runtime) Operations(adapter string) []Operation {
	s := rt.live.Load()
	a := s.byName[adapter]
	if a == nil {
		return nil
	}
	out := make([]Operation, 0, len(a.Operations))
	for _, op := range a.Operations {
		d := s.entries[a].Detail(op)
		out = append(out, Operation{op.Name, op.Description, op.Category, op.Mapping.Method + " " + op.Mapping.Template, d.Answer(), s.entries[a].DiscreteJSON(op, op.Name)})
	}
	return out
}
