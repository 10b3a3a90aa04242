//go:build unix

package doctor

import "golang.org/x/sys/unix"

// openFiles returns how many files this process may have open.
func openFiles() (n uint64, known bool) {
	var limit unix.Rlimit
	err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit)
	return uint64(limit.Cur), err == nil //nolint:unconvert // the type differs between systems
}
