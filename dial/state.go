package dial

import (
	"syscall"
	"time"
)

// socket is a connection of the system.
type socket interface {
	syscall.Conn
	Close() error
}

// state is what the system knows of a connection.
type state struct {
	unacked bool          // bytes were sent and are not acknowledged
	unsent  bool          // bytes wait for room at the peer
	probes  int           // sent for that room, and not answered
	quiet   time.Duration // since the last acknowledgement
}
