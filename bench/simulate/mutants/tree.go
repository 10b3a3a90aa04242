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
	root, dir string        // dir is for temporary files
	simulator string        // a package
	each      time.Duration // how long to look for a fault
	sound     string        // the simulator of the tree as it is, once it is built
}

// verdict says how a fault was found; it is zero if it was not.
type verdict struct{ law, seed, after string }

// errNotCompiled says that a fault does not compile.
var errNotCompiled = errors.New("go build fails")

// put gives a file another text, and all others their own; no file is "".
func (t *tree) put(file string, text []byte) error {
	instead, replace := filepath.Join(t.dir, "instead.go"), map[string]string{}
	if file != "" {
		replace[filepath.Join(t.root, file)] = instead
	}
	list, err := json.Marshal(map[string]any{"Replace": replace})
	return errors.Join(err, os.WriteFile(instead, text, 0o644), os.WriteFile(filepath.Join(t.dir, "overlay.json"), list, 0o644))
}

// command returns one that is interrupted when ctx ends, so that it ends what it has started itself.
func command(ctx context.Context, name string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = 10 * time.Second
	return cmd
}

// build runs go build with the file that was put.
func (t *tree) build(ctx context.Context, args ...string) error {
	cmd := command(ctx, "go", append([]string{"build", "-overlay", filepath.Join(t.dir, "overlay.json")}, args...)...)
	cmd.Dir = t.root
	if said, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%w: %s", errNotCompiled, tail(said))
	}
	return nil
}

// breaks reports whether the tree as it is breaks a law with this seed, too: then nothing was found.
func (t *tree) breaks(ctx context.Context, v verdict) (bool, error) {
	if t.sound == "" {
		program := filepath.Join(t.dir, "sound")
		if err := errors.Join(t.put("", nil), t.build(ctx, "-o", program, t.simulator)); err != nil {
			return false, err
		}
		t.sound = program
	}
	for range 3 { // a fault that shows now and then
		cmd := command(ctx, t.sound, "-seed", v.seed, "-shrink=false")
		cmd.Dir = t.root
		if out, _ := cmd.Output(); bytes.Contains(out, []byte("\n"+v.law+" at ")) {
			return true, nil
		}
	}
	return false, nil
}

// found is the line with which the simulator says which violation it has found.
var found = regexp.MustCompile(`(?m)^found: (.+) seed=(\S+) after=(\S+)$`)

// play builds the simulator with this text of a file, and runs it until it has found a violation or the time is over.
func (t *tree) play(ctx context.Context, file string, text []byte) (v verdict, err error) {
	program := filepath.Join(t.dir, "simulate")
	if err := errors.Join(t.put(file, text), t.build(ctx, "-o", program, t.simulator)); err != nil {
		return v, err
	}
	for begun := time.Now(); ; {
		left := max(t.each-time.Since(begun), time.Second).Round(time.Second)
		if v, err = t.playFor(ctx, left, program); err != nil || v.law == "" {
			return v, err
		}
		v.after = fmt.Sprintf("%.1fs", time.Since(begun).Seconds())
		if too, err := t.breaks(ctx, v); !too || err != nil {
			return v, err
		}
		if time.Since(begun) > t.each {
			return verdict{}, nil
		}
	}
}

func (t *tree) playFor(ctx context.Context, left time.Duration, program string) (v verdict, err error) {
	ctx, cancel := context.WithTimeout(ctx, left+2*time.Minute)
	defer cancel()
	cmd := command(ctx, program, "-time", left.String(), "-fail-fast")
	cmd.Dir = t.root
	out, err := cmd.CombinedOutput()
	if m := found.FindSubmatch(out); m != nil {
		return verdict{law: string(m[1]), seed: string(m[2]), after: string(m[3])}, nil
	} else if err != nil {
		err = fmt.Errorf("the simulator has found nothing and failed: %w: %s", err, tail(out))
	}
	return v, err
}

// tail returns the end of what a command has written, for an error.
func tail(text []byte) []byte {
	text = bytes.TrimSpace(text)
	return text[max(0, len(text)-600):]
}
