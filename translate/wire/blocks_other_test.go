//go:build !amd64

package wire

var hasBlocks = false
