//go:build !unix

package doctor

// openFiles returns how many files this process may have open, where the system has such a limit.
func openFiles() (n uint64, known bool) { return 0, false }
