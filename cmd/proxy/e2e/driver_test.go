package e2e

import (
	"context"
	"errors"
	"io"
	"os"

	"github.com/dragoman-proxy/dragoman/cmd/proxy/e2e/nodetest"
)

var drivers = nodetest.Drivers{Folder: "peers", AtOnce: cap(turns)}

// runNode runs one of the programs in peers/ with a client that goes to an endpoint, and returns the JSON values that it
// printed, one a line.
func runNode(ctx context.Context, program string, to endpoint, config map[string]any) ([]byte, error) {
	config = withAll(config, map[string]any{"transport": to.over, "url": to.url})
	if to.over == stdio {
		log, err := os.CreateTemp(binaries, "stderr-")
		if err != nil {
			return nil, err
		}
		defer func() {
			_, _ = io.Copy(to.stderr, log)
			log.Close()
			os.Remove(log.Name())
		}()
		config["command"], config["args"], config["stderr"] = to.command[0], to.command[1:], log.Name()
	}
	d, err := drivers.Take()
	if err != nil {
		return nil, err
	}
	printed, err := d.Run(ctx, program, config)
	if err != nil {
		to.stderr.Write([]byte(d.Said()))
		drivers.Fail(d)
		return printed, errors.Join(context.Cause(ctx), err)
	}
	drivers.Give(d)
	return printed, nil
}
