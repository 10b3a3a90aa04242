//go:build !race

package adapterrt

// effort divides the sizes and counts in tests.
const effort = 1
