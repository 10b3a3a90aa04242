package origin

import (
	"context"

	"github.com/dragoman-proxy/dragoman/proxy/replicas/processes"
	"github.com/dragoman-proxy/dragoman/proxy/transport/upstream"
)

// process is the connection to a child process, which occupies a place until it has ended.
type process struct {
	upstream.Conn
	place *processes.Place
}

// Close stops the process.
func (c *process) Close(ctx context.Context) error {
	c.place.Ending()
	err := c.Conn.Close(ctx)
	c.place.Free()
	return err
}

// Bounded returns o with its number of processes limited by l. It returns o itself if the server is not a
// process.
func (o Origin) Bounded(l *processes.Limit) Origin {
	if !o.Restarts {
		return o // the server is not a process
	}
	placed := func(ctx context.Context, begin func() (*upstream.Begun, error)) (*upstream.Begun, error) {
		place, err := l.Take(ctx)
		if err != nil {
			return nil, err
		}
		b, err := begin()
		if err != nil {
			place.Free()
			return nil, err
		}
		b.Conn, b.Move = &process{b.Conn, place}, place.Move
		return b, nil
	}
	connect, open := o.Connect, o.Open
	o.Connect = func(ctx context.Context, initialize *upstream.Outgoing) (*upstream.Begun, error) {
		return placed(ctx, func() (*upstream.Begun, error) { return connect(ctx, initialize) })
	}
	if open != nil {
		o.Open = func(ctx context.Context) (*upstream.Begun, error) {
			return placed(ctx, func() (*upstream.Begun, error) { return open(ctx) })
		}
	}
	return o
}
