// Package fields keeps some members of a JSON value and leaves out others.
//
// Paths are member names with dots between: assignee.name. A star is any name,
// \. a dot in a name. Arrays need no mention, issues.title is the title of each
// issue; a number selects one element. The wrappers that lists come in may be
// left out as well: title is also nodes[].title, and what says how to page on
// stays beside a wrapper. A path to an object or array is all of it.
//
// Bytes in, bytes out: what stays is as it was written, in its order.
package fields
