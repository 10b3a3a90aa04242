//go:build !(linux || darwin || freebsd)

package observe

func newChunk() *chunk { return &chunk{text: make([]byte, 0, chunkBytes)} }
