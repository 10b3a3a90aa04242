//go:build race

package corpus

const slowed = true // by the race detector
