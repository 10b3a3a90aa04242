//go:build !race

package upstream

// effort divides the sizes of large tests.
const effort = 1
