//go:build !race

package adapterrt

// effort divides the size of what tests are done with.
const effort = 1
