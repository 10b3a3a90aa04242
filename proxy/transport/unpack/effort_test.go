//go:build !race

package unpack

// effort divides the sizes in tests.
const effort = 1
