package adapterrt

import (
	"github.com/dragoman-proxy/dragoman/adapterrt/file"
)

// Info is what is known of a loaded adapter.
type Info struct {
	Name, Version, Description, File string

	BaseURL     string
	Auth        string   // the type of its auth block, none without one
	Credentials []string // the environment variables and files that hold them
	Operations  int
}

// Adapters lists what is loaded, in the order of the files.
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

// Operation is what is known of an adapter's operation.
type Operation struct {
	Name, Description string
	Category          file.Category
	MapsTo            string // METHOD /path
	Detail            []byte // the answer of introspection
}

// Operations lists the operations of an adapter in the order of its file, nil when
// there is no adapter of that name.
func (rt *Runtime) Operations(adapter string) []Operation {
	a := rt.live.Load().byName[adapter]
	if a == nil {
		return nil
	}
	out := make([]Operation, 0, len(a.Operations))
	for _, op := range a.Operations {
		out = append(out, Operation{op.Name, op.Description, op.Category, op.Mapping.Method + " " + op.Mapping.Template, a.shown.Details[op.Index].Answer()})
	}
	return out
}
