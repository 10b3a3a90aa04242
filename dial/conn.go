package dial

import "net"

// conn is a connection whose errors say that it was dead.
type conn struct {
	net.Conn
	guard Guard
}

func (c *conn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	return n, c.guard.Err(err)
}

func (c *conn) Write(b []byte) (int, error) {
	c.guard.Sent()
	n, err := c.Conn.Write(b)
	c.guard.Sent()
	return n, c.guard.Err(err)
}
