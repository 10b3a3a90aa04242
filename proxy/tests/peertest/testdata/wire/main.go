// Command wire connects its stdin and stdout with a TCP address. The tests of package proxy start it hundreds of times
// as a server on a pipe. It is a program of its own because the test binary, with the race detector, takes a hundred
// times its processor time to start.
package main

import (
	"io"
	"net"
	"os"
)

func main() {
	conn, err := net.Dial("tcp", os.Args[1])
	if err != nil {
		os.Exit(1)
	}
	go func() {
		_, _ = io.Copy(conn, os.Stdin)
		_ = conn.(*net.TCPConn).CloseWrite()
	}()
	_, _ = io.Copy(os.Stdout, conn)
}
