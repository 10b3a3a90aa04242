package adapters

import (
	"context"
	"io"

	"github.com/dragoman-proxy/dragoman/adapterrt/credential"
	"github.com/dragoman-proxy/dragoman/proxy/origin"
	"github.com/dragoman-proxy/dragoman/proxy/transport/upstream"
)

// maxPrinted bounds what a command may print: more than any token.
const maxPrinted = 1 << 20

// runIn runs commands in w. It returns nil if they are programs of the operating system.
func runIn(w origin.World) credential.Run {
	if w.Start == nil {
		return nil
	}
	return func(ctx context.Context, command []string) ([]byte, error) {
		p, err := w.Start(&upstream.Stdio{Command: command})
		if err != nil {
			return nil, err
		}
		defer p.Release()
		defer context.AfterFunc(ctx, p.Kill)()
		p.In.Close()
		heard := make(chan struct{})
		go func() {
			defer close(heard)
			io.Copy(io.Discard, p.Err) //nolint:errcheck // the status says what is wrong
		}()
		text, unread := io.ReadAll(io.LimitReader(p.Out, maxPrinted))
		p.Out.Close()
		err = p.Wait()
		p.Err.Close()
		<-heard
		if err == nil {
			err = unread
		}
		return text, err
	}
}
