package e2e

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/dragoman-proxy/dragoman/cmd/proxy/e2e/nodetest"
	"github.com/dragoman-proxy/dragoman/proxy/tests/peertest/testset"
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

// TestAFailedRunLeavesOthersOfItsProcessTheirTime checks that a process whose program fails gets no other run, and ends when its
// other runs have.
func TestAFailedRunLeavesOthersOfItsProcessTheirTime(t *testing.T) {
	testset.Need(t, testset.Peers, "node")
	folder := t.TempDir()
	driver, err := os.ReadFile(filepath.Join("peers", "driver.mjs"))
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{
		"driver.mjs": string(driver),
		"echo.mjs":   "export const run = async (config, print) => print(config);",
		"fail.mjs":   "export const run = async () => { throw new Error('as it must') };",
	} {
		if err := os.WriteFile(filepath.Join(folder, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	pool := nodetest.Drivers{Folder: folder, AtOnce: 2}
	defer pool.End()
	take := func() *nodetest.Driver {
		t.Helper()
		d, err := pool.Take()
		if err != nil {
			t.Fatal(err)
		}
		return d
	}
	echoes := func(d *nodetest.Driver) {
		t.Helper()
		if printed, err := d.Run(t.Context(), "echo.mjs", map[string]any{"a": 1}); err != nil || string(printed) != "{\"a\":1}\n" {
			t.Errorf("printed %q, %v", printed, err)
		}
	}
	first, second := take(), take()
	if first != second {
		t.Fatal("two runs have a process each, where both could have one")
	}
	if _, err := first.Run(t.Context(), "fail.mjs", nil); err == nil {
		t.Error("the program has not failed")
	}
	pool.Fail(first)
	third := take()
	if third == second {
		t.Error("a process whose program has failed gets another run")
	}
	echoes(second)
	echoes(third)
	pool.Give(third)
	pool.Give(second)
	if _, err := second.Run(t.Context(), "echo.mjs", nil); err == nil {
		t.Error("a process whose program has failed runs on, without a run")
	}
}
