//go:build !race

package tests

// effort divides the size of large tests.
const effort = 1

// oneByOne is whether tests that could run together do not.
const oneByOne = false
