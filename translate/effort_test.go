//go:build !race

package translate_test

// effort divides the size of what tests are done with.
const effort = 1
