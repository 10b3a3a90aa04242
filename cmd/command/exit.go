package command

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/dragoman-proxy/dragoman/adapterrt/secret"
	"github.com/dragoman-proxy/dragoman/proxy/commands/doctor"
	"github.com/dragoman-proxy/dragoman/proxy/config"
	"github.com/dragoman-proxy/dragoman/proxy/config/setting"
	"github.com/dragoman-proxy/dragoman/proxy/origin"
	"github.com/dragoman-proxy/dragoman/proxy/pipes/failures"
	"github.com/dragoman-proxy/dragoman/proxy/transport/upstream"
)

// The exit codes of the process. exitHelp documents them.
const (
	exitOther  = 1 // all other errors
	exitUsage  = 2 // the command line, the configuration, or a file that they name is wrong
	exitServer = 3 // a server failed, or an operation of an adapter
	// 4 is doctor.ExitOurs: a check of dragoman itself failed.
)

const exitHelp = `Exit codes:
  0  done
  1  failed for another reason than those below; probe: clients would miss something
  2  the command line, the configuration, or a file that they name is wrong
  3  a server cannot be reached or failed; an operation of an adapter failed
  4  doctor: a check of dragoman itself failed`

// exitError is an error with the exit code of the process.
type exitError struct {
	code int
	error
}

func (e *exitError) Unwrap() error { return e.error }

// exitCode returns the exit code for a command's error.
func exitCode(err error) int {
	var exit *exitError
	switch {
	case err == nil:
		return 0
	case errors.As(err, &exit):
		return exit.code
	case errors.As(err, new(setting.Mistake)):
		return exitUsage
	}
	return exitOther
}

// causeOf returns the signal that has ended ctx in place of an error that says no more than "context canceled".
func causeOf(ctx context.Context, err error) error {
	if ctx.Err() == nil || !errors.Is(err, context.Canceled) {
		return err
	}
	return &exitError{exitCode(err), context.Cause(ctx)}
}

// withCode returns err with an exit code, or nil for nil. An error that has a code keeps it.
func withCode(code int, err error) error {
	if err == nil || errors.As(err, new(*exitError)) || errors.As(err, new(setting.Mistake)) {
		return err
	}
	return &exitError{code, err}
}

// probeTime is the time limit of a command that examines a server.
const probeTime = time.Minute

// serverFailed returns the error of a server that cfg names, with what to do and its exit code. It returns nil and mistakes in the
// configuration as they are. ctx is that of the requests to the server.
func serverFailed(ctx context.Context, cfg config.Config, err error) error {
	if err == nil || errors.As(err, new(setting.Mistake)) {
		return err
	}
	if ctx.Err() == context.DeadlineExceeded && errors.Is(err, context.DeadlineExceeded) {
		err = fmt.Errorf("the server has not answered within %v: %w", probeTime, err)
	}
	if _, found := errors.AsType[*doctor.FoundError](err); found { // which says what to do
		return withCode(exitServer, err)
	}
	advice := "dragoman doctor with the same arguments looks for the cause"
	switch c := failures.Of(err); {
	case c == failures.CommandNotFound && len(cfg.Upstream.Command) == 0: // a file that the configuration names
		return withCode(exitUsage, err)
	case c == "", c == failures.Malformed, c == failures.TimeoutFirstByte, c == failures.TimeoutSilence: // which say little without the call
	default:
		advice = c.AdviceOn(err, cfg.Upstream.URL)
	}
	if exit, ok := errors.AsType[*upstream.ExitError](err); ok {
		advice = cmp.Or(cfg.Upstream.AdviceOnWithheld(os.Environ(), exit.Tail), advice)
	}
	if status, ok := errors.AsType[*upstream.StatusError](err); ok {
		if reason := failures.Quote(failures.Reason(status), secret.NewSet(origin.Secrets(&cfg)...)); reason != "" {
			err = fmt.Errorf("%w: %s", err, reason)
		}
	}
	return withCode(exitServer, fmt.Errorf("%w; %s", err, advice))
}
