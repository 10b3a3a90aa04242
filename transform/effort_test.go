//go:build !race

package transform

// effort divides the size of the tests' inputs.
const effort = 1
