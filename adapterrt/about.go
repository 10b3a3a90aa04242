package adapterrt

import "slices"

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
			Name: a.Name, Version: a.Version, Description: a.Description, File: a.File, Operations: len(a.ops),
			BaseURL: a.target.baseURL, Auth: a.auth.kind.String(), Credentials: a.auth.credentials(),
		})
	}
	return out
}

// credentials are the places that secrets are read from.
func (au *auth) credentials() []string {
	all := []credential{au.user, au.value}
	if o := au.oauth; o != nil {
		all = append(all, o.id, o.secret)
		if o.refresh != nil {
			all = append(all, *o.refresh)
		}
	}
	if m := au.mutual; m != nil {
		all = append(all, credential{file: m.cert}, credential{file: m.key}, credential{file: m.ca})
	}
	var out []string
	for _, c := range all {
		if s := c.String(); s != "" && !slices.Contains(out, s) {
			out = append(out, s)
		}
	}
	return out
}

// Operation is what is known of an adapter's operation.
type Operation struct {
	Name, Description string
	Category          Category
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
	out := make([]Operation, 0, len(a.ops))
	for _, op := range a.ops {
		out = append(out, Operation{op.name, op.description, op.category, op.mapping.method + " " + op.mapping.template, op.detail.answer()})
	}
	return out
}
