package upstream

import (
	"context"
)

// Connector begins sessions with one server.
type Connector interface {
	// Connect opens a connection and sends initialize on it, the request that begins a
	// session. ctx bounds Connect and the stream Answer, but not Conn and Standing. If
	// opening or Send fails, Connect returns the error and leaves nothing open.
	Connect(ctx context.Context, initialize *Outgoing) (*Begun, error)
}

// Begun is a session whose first message was sent.
type Begun struct {
	Conn Conn

	// One of them has the server's messages about the first message. The caller closes
	// it. Answer is the Stream that Send returned for the message; Standing is that of
	// Listen, for a Conn that is a pipe.
	Answer   Stream
	Standing Stream

	// Move counts the process for the client in ctx from now on; nil if processes are not counted.
	Move func(ctx context.Context)
}

var _ Connector = Stdio{}

// Connect starts a child for the session.
func (s Stdio) Connect(ctx context.Context, initialize *Outgoing) (*Begun, error) {
	b, err := s.Open(ctx)
	if err != nil {
		return nil, err
	}
	if _, err := b.Conn.Send(ctx, initialize); err != nil {
		b.Conn.Close(ctx) //nolint:errcheck // it has none
		return nil, err
	}
	return b, nil
}

// Open starts a child and sends it nothing. ctx bounds Open only.
func (s Stdio) Open(ctx context.Context) (*Begun, error) {
	c, err := s.Start(ctx)
	if err != nil {
		return nil, err
	}
	st, err := c.Listen(context.WithoutCancel(ctx), ListenOptions{})
	if err != nil {
		c.Close(ctx) //nolint:errcheck // it has none
		return nil, err
	}
	return &Begun{Conn: c, Standing: st}, nil
}
