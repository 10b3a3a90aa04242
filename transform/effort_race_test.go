//go:build race

package transform

const effort = 16
