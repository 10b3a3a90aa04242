//go:build race

package unpack

// effort divides the sizes in tests, because the race detector makes them slow.
const effort = 16
