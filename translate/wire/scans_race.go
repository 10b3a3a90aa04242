//go:build race

package wire

import "sync/atomic"

var scans atomic.Int64

func countScan() { scans.Add(1) }

// Scans returns how many texts were scanned. Only builds for tests, with the race detector, count them.
func Scans() int64 { return scans.Load() }
