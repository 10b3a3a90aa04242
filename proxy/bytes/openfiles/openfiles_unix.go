//go:build unix

// Package openfiles says how many files this process may have open. Each connection is one.
package openfiles

import "golang.org/x/sys/unix"

// Allowed returns how many files this process may have open, where the system has such a limit.
func Allowed() (n uint64, known bool) {
	var limit unix.Rlimit
	err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit)
	return uint64(limit.Cur), err == nil //nolint:unconvert // the type differs between systems
}
