package upstream

import (
	"context"
)

// Begun is a connection whose first message was sent, unless the function that returns it says otherwise.
type Begun struct {
	Conn      Conn         // nil in the zero value
	Web       *HTTPSession // Conn, over Streamable HTTP; else nil
	Child     *Child       // Conn, or beneath it, if that is a process; else nil
	Transport Transport    // of a server at a URL; "" for a process

	// One of them has the server's messages about the first message. The caller closes
	// it. Answer is the Stream that Send returned for the message; Standing is that of
	// Listen, for a Conn that is a pipe.
	Answer   Stream
	Standing Stream

	// Move counts the process for the client in ctx from now on; nil if processes are not counted.
	Move func(ctx context.Context)
}

// Begun returns the connection s, on which nothing was sent.
func (s *HTTPSession) Begun() *Begun { return &Begun{Conn: s, Web: s, Transport: StreamableHTTP} }

// Connect starts a child and sends it initialize, the request that begins a session. ctx bounds Connect only. If an error is
// returned, nothing is left open.
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
	return &Begun{Conn: c, Child: c, Standing: st}, nil
}

// Transport is a way to reach a server at a URL.
type Transport string

const (
	// Auto finds out which of the others the server speaks.
	Auto Transport = "auto"
	// StreamableHTTP posts messages to the URL and reads the answers in the responses.
	StreamableHTTP Transport = "http"
	// HTTPWithSSE reads a stream of events at the URL, and posts messages to the
	// address that the stream names.
	HTTPWithSSE Transport = "sse"
)
