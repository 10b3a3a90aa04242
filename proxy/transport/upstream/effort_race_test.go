//go:build race

package upstream

// effort divides the sizes of large tests, because the race detector makes them slow.
const effort = 4
