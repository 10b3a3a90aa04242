package httpcall

import (
	"errors"
	"syscall"
)

// wsaConnRefused: https://learn.microsoft.com/windows/win32/winsock/windows-sockets-error-codes-2
const wsaConnRefused syscall.Errno = 10061

func isRefused(err error) bool {
	return errors.Is(err, syscall.ECONNREFUSED) || errors.Is(err, wsaConnRefused)
}
