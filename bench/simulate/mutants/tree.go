package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"time"
)

// tree is the checkout, in which one file at a time has another text.
type tree struct {
	root, dir string // dir is for temporary files
	simulator string // a package
}

// verdict says what became of a fault.
type verdict struct {
	law, seed, after string // empty if the fault was not found
	err              error
}

// notCompiled is the error of a fault that does not compile.
type notCompiled struct{ said string }

func (e *notCompiled) Error() string { return "does not compile: " + e.said }

// overlay writes the overlay in which the file has this text.
func (t *tree) overlay(file string, text []byte) (string, error) {
	instead := filepath.Join(t.dir, "instead.go")
	list := struct{ Replace map[string]string }{map[string]string{filepath.Join(t.root, file): instead}}
	said, err := json.Marshal(list)
	at := filepath.Join(t.dir, "overlay.json")
	return at, errors.Join(err, os.WriteFile(instead, text, 0o644), os.WriteFile(at, said, 0o644))
}

// compile builds the package of a file that has this text.
func (t *tree) compile(file string, text []byte) error {
	at, err := t.overlay(file, text)
	if err != nil {
		return err
	}
	return t.build("-overlay", at, "./"+filepath.Dir(file))
}

func (t *tree) build(args ...string) error {
	cmd := exec.Command("go", append([]string{"build"}, args...)...)
	cmd.Dir = t.root
	if said, err := cmd.CombinedOutput(); err != nil {
		return &notCompiled{tail(said)}
	}
	return nil
}

// try looks for the fault of a file with this text.
func (t *tree) try(file string, text []byte, each time.Duration) verdict {
	at, err := t.overlay(file, text)
	if err != nil {
		return verdict{err: err}
	}
	return t.play(each, "-overlay", at)
}

// sound returns an error if the simulator finds a fault in the tree as it is: then it would find the same one in every mutant.
func (t *tree) sound(each time.Duration) error {
	switch v := t.play(each); {
	case v.err != nil:
		return v.err
	case v.law != "":
		return fmt.Errorf("the tree without a fault breaks %s (seed %s): mend that first", v.law, v.seed)
	}
	return nil
}

// said is the line with which the simulator ends when it has found a violation.
var said = regexp.MustCompile(`(?m)^found: (.+) seed=(\S+) after=(\S+)$`)

// patience is how long building aside the simulator may take longer than it was told.
const patience = 2 * time.Minute

// play builds the simulator, and runs it until it has found a violation or the time is over.
func (t *tree) play(each time.Duration, flags ...string) verdict {
	program := filepath.Join(t.dir, "simulate")
	if err := t.build(append(flags, "-o", program, t.simulator)...); err != nil {
		return verdict{err: err}
	}
	ctx, cancel := context.WithTimeout(context.Background(), each+patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, program, "-time", each.String(), "-fail-fast")
	cmd.Dir, cmd.WaitDelay = t.dir, 10*time.Second
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	err := cmd.Run()
	if m := said.FindSubmatch(out.Bytes()); m != nil {
		return verdict{law: string(m[1]), seed: string(m[2]), after: string(m[3])}
	}
	if err != nil {
		return verdict{err: fmt.Errorf("the simulator has found nothing and failed: %w: %s", err, tail(out.Bytes()))}
	}
	return verdict{}
}
