//go:build !linux

package rawio

import "syscall"

// WhenHungUp never calls do on this system.
func WhenHungUp(syscall.Conn, func()) (stop func()) { return func() {} }
