package dial

import "golang.org/x/sys/windows"

// etimedout is the error of a connection that the system has given up.
const etimedout = windows.WSAETIMEDOUT
