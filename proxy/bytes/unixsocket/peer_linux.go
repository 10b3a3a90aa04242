package unixsocket

import "syscall"

func peerOf(fd int) (uid uint32, err error) {
	who, err := syscall.GetsockoptUcred(fd, syscall.SOL_SOCKET, syscall.SO_PEERCRED)
	if err != nil {
		return 0, err
	}
	return who.Uid, nil
}
