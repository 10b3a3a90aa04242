//go:build race

package proxy

// effort divides the size of what tests are done with.
const effort = 8
