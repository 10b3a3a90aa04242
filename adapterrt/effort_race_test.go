//go:build race

package adapterrt

// effort divides the sizes and counts in tests, because the race detector makes them slow.
const effort = 4
