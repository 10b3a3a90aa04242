package command

import (
	"errors"

	"github.com/spf13/cobra"

	"github.com/dragoman-proxy/dragoman/proxy/setting"
)

// The codes that the process ends with, for scripts. exitHelp has the same for people.
const (
	exitOther  = 1 // what the others do not say
	exitUsage  = 2 // the command line, the configuration or an adapter file is wrong
	exitServer = 3 // the server failed, or an operation of an adapter
)

const exitHelp = `Exit codes:
  0  done
  1  failed, for another reason than these; probe: clients would miss something
  2  the command line, the configuration or an adapter file is wrong
  3  the server cannot be reached or failed; an operation of an adapter failed`

// exitError ends the process with a code that scripts can tell apart.
type exitError struct {
	code int
	error
}

func (e *exitError) Unwrap() error { return e.error }

// exitCode is the code that a command's error ends the process with.
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

// withCode is err with a code, nil for nil. An error that has a code keeps it.
func withCode(code int, err error) error {
	if err == nil || errors.As(err, new(*exitError)) || errors.As(err, new(setting.Mistake)) {
		return err
	}
	return &exitError{code, err}
}

// checkUsage has cmd and the commands below it end with exitUsage for a wrong command line.
func checkUsage(cmd *cobra.Command) {
	cmd.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return withCode(exitUsage, err) })
	if args := cmd.Args; args != nil {
		cmd.Args = func(cmd *cobra.Command, a []string) error { return withCode(exitUsage, args(cmd, a)) }
	}
	for _, c := range cmd.Commands() {
		checkUsage(c)
	}
}
