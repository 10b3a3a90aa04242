//go:build race

package corpus

const slowed = true // the race detector makes the tests slow
