//go:build !race

package tokens

// effort divides the work of the longest tests. The race detector makes them
// far slower, and a part of the work is enough for it.
const effort = 1
