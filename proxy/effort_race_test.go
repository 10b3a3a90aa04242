//go:build race

package proxy

// effort divides the size of large tests.
const effort = 8
