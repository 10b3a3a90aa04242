//go:build unix

package command

import (
	"syscall"
	"testing"
)

func TestHangupReloadsTheConfiguration(t *testing.T) {
	needsHangup(t)
	_, used, _ := reloading(t, nil)
	if err := syscall.Kill(syscall.Getpid(), syscall.SIGHUP); err != nil {
		t.Fatal(err)
	}
	until(t, used, 1)
}
