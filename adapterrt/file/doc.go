// Package file reads adapter files: Markdown files whose YAML front matter maps an HTTP
// API to operations.
//
// [Find] lists the files of a directory. [Parse] checks a file and compiles it to an
// [Adapter]. It reports all mistakes of a file at once, each as a [Problem] with the
// line and the path of the wrong value. An Adapter does not change afterwards: the state
// of a served adapter is in other packages.
//
// An Adapter has a [Target], where the API is, [Auth], where its credentials are, and
// operations. An [Operation] has a [Mapping], which is its method and URL, and
// parameters; each [Param] has a [Definition], which says which values are valid.
//
// yaml.go turns the front matter into a tree with line numbers. block.go says what a section's keys are
// described by, for its check and for docs/adapter-format.md. check.go has the helpers of
// all checks, and names.go says which names are valid. Each section of a file that can be
// understood alone (target, auth, types, trust, limits, params, response) has its own Go file,
// with its compiled form and its check. adapter.go has what these make together, an Adapter and
// its Operations. Above it are the checks of sections that add to a whole operation or depend on
// it (request, graphql, paging, fields, gate, cache), then operation.go, and on top validate.go
// with Parse.
//
// The package calls no API and resolves no credential. It reads files and the environment
// variable of base_url_env, and checks whether the variables of credentials are set.
package file
