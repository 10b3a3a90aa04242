//go:build !race

package tokens

// effort divides the work of the longest tests: the race detector makes it far
// longer, and finds what it finds in a part of it.
const effort = 1
