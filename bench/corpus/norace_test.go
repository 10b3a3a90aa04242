//go:build !race

package corpus

const slowed = false
