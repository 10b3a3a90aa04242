package unixsocket

import "golang.org/x/sys/unix"

func peerOf(fd int) (uid uint32, err error) {
	who, err := unix.GetsockoptXucred(fd, unix.SOL_LOCAL, unix.LOCAL_PEERCRED)
	if err != nil {
		return 0, err
	}
	return who.Uid, nil
}
