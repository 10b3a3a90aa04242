//go:build !race

package transform

// effort divides the size of what tests are done with.
const effort = 1
