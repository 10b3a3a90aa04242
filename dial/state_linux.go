package dial

import (
	"time"

	"golang.org/x/sys/unix"
)

// stateOf asks the system about a connection. ok is false if it is closed.
func stateOf(c socket) (s state, ok bool) {
	raw, err := c.SyscallConn()
	if err != nil {
		return s, false
	}
	err = raw.Control(func(fd uintptr) {
		info, err := unix.GetsockoptTCPInfo(int(fd), unix.IPPROTO_TCP, unix.TCP_INFO)
		if ok = err == nil; ok {
			s = state{
				unacked: info.Unacked > 0, unsent: info.Notsent_bytes > 0, probes: int(info.Probes),
				quiet: time.Duration(info.Last_ack_recv) * time.Millisecond,
			}
		}
	})
	return s, ok && err == nil
}
