//go:build !windows

package oauth

import (
	"errors"
	"io/fs"
	"os"
	"syscall"
)

func ownedByUs(st fs.FileInfo) bool {
	s, ok := st.Sys().(*syscall.Stat_t)
	return !ok || int(s.Uid) == os.Geteuid()
}

// syncDirectory makes a rename in path outlive a power failure.
func syncDirectory(path string) error {
	d, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
