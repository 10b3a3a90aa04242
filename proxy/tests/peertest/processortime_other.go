//go:build !linux

package peertest

import "time"

// ProcessorTime returns how long do took.
func ProcessorTime(do func()) time.Duration {
	began := time.Now()
	do()
	return time.Since(began)
}
