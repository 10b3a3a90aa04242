// Package file reads adapter files: Markdown whose YAML front matter says how an
// HTTP API becomes operations.
//
// [Find] lists the files of a directory, [Parse] checks one and compiles it to an
// [Adapter]. It reports every mistake of a file at once, each as a [Problem] with the
// line and the path of the value at fault. Nothing in an Adapter changes afterwards:
// what a served adapter counts and keeps lies in other packages.
//
// An Adapter has a [Target], where the API is, [Auth], where its credentials are, and
// operations. An [Operation] has a [Mapping], which is its method and URL, and
// parameters; each [Param] has a [Definition], which is what a value has to be.
//
// yaml.go turns the front matter into a tree with line numbers. check.go has what all
// checks use. validate.go checks the top level, operation.go and param.go what their
// names say. Each section of a file (paging, graphql, fields, gate, limits, cache,
// trust, auth, types) has its own Go file, with its compiled form beside its check.
//
// The package calls no API and resolves no credential; it reads files, and whether
// an environment variable is set.
package file
