//go:build race

package tokens

const effort = 200
