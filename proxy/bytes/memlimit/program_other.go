//go:build !linux

package memlimit

func releaseProgram() {}
