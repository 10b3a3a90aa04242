//go:build !race

package wire

// effort divides the size of what tests are done with.
const effort = 1
