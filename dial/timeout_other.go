//go:build !windows

package dial

import "syscall"

// etimedout is the error of a connection that the system has given up.
const etimedout = syscall.ETIMEDOUT
