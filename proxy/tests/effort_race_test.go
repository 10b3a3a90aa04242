//go:build race

package tests

// effort divides the size of large tests.
const effort = 8
