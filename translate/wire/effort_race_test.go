//go:build race

package wire

// effort is the divisor of the number of cases in slow tests.
const effort = 8
