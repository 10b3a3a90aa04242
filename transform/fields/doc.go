// Package fields keeps some members of a JSON value and leaves out others.
//
// Paths are member names with dots between: assignee.name. A star matches any
// name; \. is a dot in a name. A path does not mention arrays: issues.title is
// the title of each issue. A number selects one element. A path may leave out
// the wrappers of lists, too: title is also nodes[].title, and the members that
// say how to get the next page stay beside a wrapper. A path to an object or
// array keeps all of it.
//
// Input and output are bytes. What is kept stays as it was written, in its
// order.
package fields
