//go:build !amd64 && !arm64

package wire

const stackLevels = 64

// skipBlocks is called only if hasBlocks.
func skipBlocks([]byte, int, *[levelWords]uint64, int, int) int { return -1 }
