//go:build race

package translate_test

// effort is the divisor of the number of cases in slow tests.
const effort = 7
